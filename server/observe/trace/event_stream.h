// Chrome's JSON trace events, one after the other, as text in pieces.

#ifndef WIDELANE_SERVER_OBSERVE_TRACE_EVENT_STREAM_H_
#define WIDELANE_SERVER_OBSERVE_TRACE_EVENT_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "server/observe/trace/records.h"

namespace widelane {

// Takes the next piece of a text; false: no more is wanted.
using TextSink = absl::FunctionRef<bool(absl::string_view)>;

// A JSON object that grows by members.
class Members {
 public:
  Members& Add(absl::string_view name, absl::string_view text);
  Members& Add(absl::string_view name, uint64_t number);
  // {} with what was added.
  std::string Object() const;

 private:
  std::string text_;
};

// Tracks that are no threads of the system have numbers from here on, which the system does not give.
inline constexpr uint32_t kFirstOwnThread = uint32_t{1} << 24;

// Where an event is drawn. No two tracks have the same thread, of whichever process they are.
struct TraceTrack {
  uint32_t process = 0;
  uint32_t thread = 0;
};

class EventStream {
 public:
  // Times are told from `start` on. `sink` outlives the stream.
  EventStream(TextSink sink, TracePoint start) : sink_(sink), start_(start) {}

  // In this order: Begin, events, End. `other` is about the whole file.
  void Begin(const Members& other);
  // False when not all could be handed on.
  bool End();

  // Names of tracks; those of lesser ranks come first.
  void ProcessName(uint32_t process, absl::string_view name, uint32_t rank);
  void ThreadName(const TraceTrack& track, absl::string_view name, uint32_t rank);
  // `args` may be empty.
  void Slice(const TraceTrack& track, absl::string_view name, TracePoint begin, TracePoint end,
             const Members& args = {});
  // A span apart from threads. Those of the same process and id, any text, are nested.
  void Span(uint32_t process, absl::string_view id, absl::string_view name, TracePoint begin, TracePoint end,
            const Members& args = {});
  void SpanBegin(uint32_t process, absl::string_view id, absl::string_view name, TracePoint time,
                 const Members& args = {});
  void SpanEnd(uint32_t process, absl::string_view id, absl::string_view name, TracePoint time);
  // An arrow's start, a place it passes, its end: each within a slice of its track. No other of the name has its
  // number.
  enum class Flow { kStart, kStep, kEnd };
  void FlowPoint(Flow flow, absl::string_view name, uint64_t number, const TraceTrack& track, TracePoint time);
  // Viewers call it "NAME UNIT".
  void Counter(uint32_t process, absl::string_view name, absl::string_view unit, TracePoint time, uint64_t value);

 private:
  void Event(const char* phase, absl::string_view name, const TraceTrack& track, TracePoint time,
             absl::string_view more);
  void Metadata(const char* what, const TraceTrack& track, const Members& args);
  void Put(absl::string_view text);
  void Flush();

  TextSink sink_;
  const TracePoint start_;
  std::string pending_;
  bool first_ = true;
  bool wanted_ = true;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_TRACE_EVENT_STREAM_H_
