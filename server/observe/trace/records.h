// What is noted while a timeline is recorded: plain records, copied into a Recording.

#ifndef WIDELANE_SERVER_OBSERVE_TRACE_RECORDS_H_
#define WIDELANE_SERVER_OBSERVE_TRACE_RECORDS_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "widelane/engine/piece_record.h"
#include "widelane/engine/route.h"

namespace widelane {

using TracePoint = std::chrono::steady_clock::time_point;

enum class RecordKind : uint8_t { kRequest, kSegment, kBatch, kPiece, kSpan, kCounters };

// The first member of each.
struct RecordHead {
  RecordKind kind;
  uint16_t bytes;
};

// A name, cut to what fits.
class ShortName {
 public:
  ShortName() = default;
  explicit ShortName(absl::string_view name);
  absl::string_view text() const { return {text_.data(), size_}; }

 private:
  std::array<char, 47> text_{};
  uint8_t size_ = 0;
};

// A request, once its outcome is known. Numbers of requests and batches count from 1; 0: none.
struct RequestRecord {
  static constexpr RecordKind kKind = RecordKind::kRequest;
  RecordHead head{};
  uint32_t receiver = 0;  // thread
  uint32_t replier = 0;   // thread
  uint32_t batches = 0;
  int code = 0;
  uint64_t number = 0;
  uint64_t rows = 0;
  uint64_t entries = 0;
  const char* method = "";
  const char* priority = "";
  TracePoint received;
  TracePoint prepared;       // read and checked, or refused
  TracePoint results_ready;  // of its last batch; the epoch without batches
  TracePoint answering;      // the reply begins to be made
  TracePoint answered;       // it is handed on
  ShortName model;
  ShortName trace_id;  // of the caller's own trace; empty: none
};

// Rows of a request in a batch.
struct SegmentRecord {
  static constexpr RecordKind kKind = RecordKind::kSegment;
  RecordHead head{};
  uint32_t packer = 0;  // thread
  uint32_t rows = 0;
  bool whole = false;  // all of the request
  uint64_t request = 0;
  uint64_t batch = 0;  // 0: scored alone, or in a batch that was open before the recording
  TracePoint pack_begin;
  TracePoint pack_end;
  TracePoint sealed;
  TracePoint done;
};

struct BatchRecord {
  static constexpr RecordKind kKind = RecordKind::kBatch;
  RecordHead head{};
  uint32_t slot = 0;  // at one time no two batches have the same
  uint32_t requests = 0;
  uint32_t rows = 0;
  uint32_t entries = 0;
  int device = 0;
  Route route = Route::kAuto;
  uint64_t number = 0;
  const char* reason = nullptr;  // why it was closed, if that is known
  TracePoint opened;
  TracePoint sealed;
  TracePoint done;
  ShortName model;
};

// A PieceRecord; SpanRecords of its spans follow.
struct TracePieceRecord {
  static constexpr RecordKind kKind = RecordKind::kPiece;
  RecordHead head{};
  uint32_t thread = 0;
  int lane = 0;
  uint32_t device = 0;
  uint32_t rows = 0;
  Route route = Route::kInline;
  uint64_t entries = 0;
  uint64_t tag = 0;
  TracePoint submitted;
  TracePoint begun;
  TracePoint launched;
  TracePoint done;
};

struct SpanRecord {
  static constexpr RecordKind kKind = RecordKind::kSpan;
  RecordHead head{};
  int lane = 0;
  uint32_t device = 0;
  uint32_t chunk = 0;
  uint32_t rows = 0;  // of the piece, as are entries and route
  Stage stage = Stage::kCompute;
  Route route = Route::kInline;
  uint64_t entries = 0;
  uint64_t tag = 0;
  TracePoint begin;
  TracePoint end;
};

struct CountersRecord {
  static constexpr RecordKind kKind = RecordKind::kCounters;
  RecordHead head{};
  uint64_t in_flight = 0;
  uint64_t queued = 0;
  TracePoint time;
};

// What a slab's tag says: the number of a batch, or of a request that is scored alone.
constexpr uint64_t BatchTag(uint64_t batch) { return batch << 1; }
constexpr uint64_t AloneTag(uint64_t request) { return request << 1 | 1; }
constexpr bool IsAlone(uint64_t tag) { return (tag & 1) != 0; }
constexpr uint64_t NumberOf(uint64_t tag) { return tag >> 1; }

// The calling thread's number in the system.
uint32_t ThreadNumber();

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_TRACE_RECORDS_H_
