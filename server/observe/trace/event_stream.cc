#include "server/observe/trace/event_stream.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace widelane {

namespace {

constexpr size_t kPieceBytes = size_t{64} << 10;

std::string JsonString(absl::string_view text) {
  using nlohmann::json;
  return json(std::string(text)).dump(-1, ' ', false, json::error_handler_t::replace);
}

// Microseconds to the nanosecond. What began just before the recording is drawn at its start.
std::string Micros(std::chrono::nanoseconds time) {
  const int64_t ns = std::max<int64_t>(time.count(), 0);
  return absl::StrFormat("%d.%03d", ns / 1000, ns % 1000);
}

// Of what belongs to a process and no thread. Viewers look threads up by their number alone, so it is nobody else's.
TraceTrack OwnTrack(uint32_t process) { return {process, kFirstOwnThread - 1 - process}; }

// Ids that hold within a process: else some viewers draw the spans outside of it.
std::string SpanMembers(absl::string_view id) {
  return absl::StrCat(R"(,"cat":"request","id2":{"local":")", id, "\"}");
}

std::string ArgsMember(const Members& args) { return absl::StrCat(R"(,"args":)", args.Object()); }

}  // namespace

Members& Members::Add(absl::string_view name, absl::string_view text) {
  absl::StrAppend(&text_, text_.empty() ? "" : ",", "\"", name, "\":", JsonString(text));
  return *this;
}

Members& Members::Add(absl::string_view name, uint64_t number) {
  absl::StrAppend(&text_, text_.empty() ? "" : ",", "\"", name, "\":", number);
  return *this;
}

std::string Members::Object() const { return absl::StrCat("{", text_, "}"); }

void EventStream::Begin(const Members& other) {
  Put(absl::StrCat(R"({"displayTimeUnit":"ns","otherData":)", other.Object(), R"(,"traceEvents":[)"));
}

bool EventStream::End() {
  Put("\n]}\n");
  Flush();
  return wanted_;
}

void EventStream::ProcessName(uint32_t process, absl::string_view name, uint32_t rank) {
  Metadata("process_name", OwnTrack(process), Members().Add("name", name));
  Metadata("process_sort_index", OwnTrack(process), Members().Add("sort_index", rank));
}

void EventStream::ThreadName(const TraceTrack& track, absl::string_view name, uint32_t rank) {
  Metadata("thread_name", track, Members().Add("name", name));
  Metadata("thread_sort_index", track, Members().Add("sort_index", rank));
}

void EventStream::Metadata(const char* what, const TraceTrack& track, const Members& args) {
  Event("M", what, track, start_, ArgsMember(args));
}

void EventStream::Slice(const TraceTrack& track, absl::string_view name, TracePoint begin, TracePoint end,
                        const Members& args) {
  begin = std::max(begin, start_);
  end = std::max(begin, end);
  Event("X", name, track, begin, absl::StrCat(R"(,"dur":)", Micros(end - begin), ArgsMember(args)));
}

void EventStream::Span(uint32_t process, absl::string_view id, absl::string_view name, TracePoint begin, TracePoint end,
                       const Members& args) {
  SpanBegin(process, id, name, begin, args);
  SpanEnd(process, id, name, std::max(begin, end));
}

void EventStream::SpanBegin(uint32_t process, absl::string_view id, absl::string_view name, TracePoint time,
                            const Members& args) {
  Event("b", name, OwnTrack(process), time, absl::StrCat(SpanMembers(id), ArgsMember(args)));
}

void EventStream::SpanEnd(uint32_t process, absl::string_view id, absl::string_view name, TracePoint time) {
  Event("e", name, OwnTrack(process), time, SpanMembers(id));
}

void EventStream::FlowPoint(Flow flow, absl::string_view name, uint64_t number, const TraceTrack& track,
                            TracePoint time) {
  constexpr const char* kPhases[] = {"s", "t", "f"};
  // Bound to the slice around it; an end without this would be bound to the next one. Viewers read ids as hexadecimal.
  Event(kPhases[static_cast<int>(flow)], name, track, time,
        absl::StrCat(R"(,"cat":"flow","bp":"e","id":"0x)", absl::Hex(number), "\""));
}

void EventStream::Counter(uint32_t process, absl::string_view name, absl::string_view unit, TracePoint time,
                          uint64_t value) {
  Event("C", name, OwnTrack(process), time, ArgsMember(Members().Add(unit, value)));
}

void EventStream::Event(const char* phase, absl::string_view name, const TraceTrack& track, TracePoint time,
                        absl::string_view more) {
  if (!wanted_) return;
  Put(absl::StrCat(first_ ? "\n" : ",\n", R"({"ph":")", phase, R"(","name":")", name, R"(","pid":)", track.process,
                   R"(,"tid":)", track.thread, R"(,"ts":)", Micros(time - start_)));
  first_ = false;
  Put(more);
  Put("}");
}

void EventStream::Put(absl::string_view text) {
  absl::StrAppend(&pending_, text);
  if (pending_.size() >= kPieceBytes) Flush();
}

void EventStream::Flush() {
  if (pending_.empty()) return;
  wanted_ = wanted_ && sink_(pending_);
  pending_.clear();
}

}  // namespace widelane
