#include "server/observe/trace/timeline.h"

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/observe/build_info.h"
#include "server/observe/trace/timeline_index.h"

namespace widelane {

namespace {

using Flow = EventStream::Flow;

// Processes, as the format calls groups of tracks.
constexpr uint32_t kRequests = 1;
constexpr uint32_t kBatches = 2;
constexpr uint32_t kFirstDevice = 3;  // the CPU, and the GPUs behind it

// Tracks of a lane: the pieces, and one for each stage, since stages of one piece overlap.
constexpr std::array<Stage, 3> kLaneStages = {Stage::kTransferIn, Stage::kCompute, Stage::kTransferOut};
constexpr uint32_t kLaneTracks = 1 + kLaneStages.size();
// Numbers kept for the lanes of each device, and, below the first GPU's, for batches.
constexpr uint32_t kDeviceThreads = 1 << 16;

const char* NameOf(Stage stage) { return kStageNames[static_cast<size_t>(stage)]; }
const char* NameOf(Route route) { return kRouteNames[static_cast<size_t>(route)]; }

TraceTrack ThreadTrack(uint32_t thread) { return {kFirstDevice, thread}; }
TraceTrack SlotTrack(uint32_t slot) { return {kBatches, kFirstOwnThread + slot}; }
TraceTrack LaneTrack(uint32_t device, int lane) {
  return {kFirstDevice + device, kFirstOwnThread + kDeviceThreads * device + static_cast<uint32_t>(lane) * kLaneTracks};
}
TraceTrack StageTrack(uint32_t device, int lane, Stage stage) {
  const auto place = std::find(kLaneStages.begin(), kLaneStages.end(), stage) - kLaneStages.begin();
  TraceTrack track = LaneTrack(device, lane);
  track.thread += 1 + static_cast<uint32_t>(place);
  return track;
}

// Arrows of requests have the requests' numbers, those of batches numbers of their own.
constexpr char kRequestArrow[] = "request";
constexpr char kBatchArrow[] = "batch";

// What pieces and their stages say of themselves.
template <typename Record>
Members PieceArgs(const Record& record) {
  Members args;
  args.Add(IsAlone(record.tag) ? "request" : "batch", NumberOf(record.tag));
  args.Add("rows", record.rows).Add("entries", record.entries).Add("route", NameOf(record.route));
  return args;
}

class Writer {
 public:
  Writer(const Recording& recording, TextSink sink)
      : recording_(recording), index_(recording), out_(sink, recording.start) {}

  bool Write(const std::vector<DeviceInfo>& devices) {
    out_.Begin(About());
    NameProcesses(devices);
    NameTracks();
    // Requests last: where one ends a stage at the moment at which another record begins one, the end is to come first.
    const auto is_request = [](const auto& record) { return std::is_same_v<decltype(record), const RequestRecord&>; };
    recording_.ForEach([&](const auto& record) {
      if (!is_request(record)) Draw(record);
    });
    recording_.ForEach([&](const auto& record) {
      if (is_request(record)) Draw(record);
    });
    return out_.End();
  }

 private:
  Members About() const;
  void NameProcesses(const std::vector<DeviceInfo>& devices);
  void NameTracks();

  void Draw(const RequestRecord& record);
  void Draw(const SegmentRecord& record);
  void Draw(const BatchRecord& record);
  void Draw(const TracePieceRecord& record);
  void Draw(const SpanRecord& record);
  void Draw(const CountersRecord& record);
  void DrawOnThread(const TracePieceRecord& record);
  void DrawOnLane(const TracePieceRecord& record);
  // From a batch to a piece of it, which begins on `track`.
  void DrawArrow(const TracePieceRecord& record, const TraceTrack& track);

  const Recording& recording_;
  const TimelineIndex index_;
  EventStream out_;
  uint64_t parts_ = 0;
  uint64_t batch_arrows_ = 0;
};

Members Writer::About() const {
  using std::chrono::milliseconds;
  const auto since_epoch = std::chrono::duration_cast<milliseconds>(recording_.started_at.time_since_epoch());
  const auto length = std::chrono::duration_cast<milliseconds>(recording_.end - recording_.start);
  Members about;
  about.Add("server", absl::StrCat("widelane-server ", kVersion));
  about.Add("start_unix_ms", static_cast<uint64_t>(since_epoch.count()));
  about.Add("length_ms", static_cast<uint64_t>(length.count()));
  about.Add("requests", index_.requests()).Add("batches", index_.batches());
  about.Add("dropped_records", recording_.dropped());
  return about;
}

void Writer::NameProcesses(const std::vector<DeviceInfo>& devices) {
  out_.ProcessName(kRequests, "requests", kRequests);
  out_.ProcessName(kBatches, "batches", kBatches);
  for (uint32_t i = 0; i < devices.size(); ++i) {
    // The CPU's threads are many: last.
    const uint32_t rank = i == 0 ? kFirstDevice + static_cast<uint32_t>(devices.size()) : kFirstDevice + i;
    out_.ProcessName(kFirstDevice + i, absl::StrCat(devices[i].id, " (", devices[i].name, ")"), rank);
  }
}

void Writer::NameTracks() {
  for (const uint32_t slot : index_.slots()) out_.ThreadName(SlotTrack(slot), absl::StrCat("batches ", slot), slot);
  for (const uint32_t thread : index_.threads()) {
    out_.ThreadName(ThreadTrack(thread), absl::StrCat("thread ", thread), thread);
  }
  for (const auto& [device, lane] : index_.lanes()) {
    const std::string name = absl::StrCat("lane ", lane);
    const TraceTrack pieces = LaneTrack(device, lane);
    out_.ThreadName(pieces, name, pieces.thread);
    for (const Stage stage : kLaneStages) {
      const TraceTrack track = StageTrack(device, lane, stage);
      out_.ThreadName(track, absl::StrCat(name, " ", NameOf(stage)), track.thread);
    }
  }
}

void Writer::Draw(const RequestRecord& record) {
  if (index_.FindRequest(record.number) == nullptr) return;
  const std::string id = absl::StrCat(record.number);
  Members args;
  args.Add("request", record.number)
      .Add("status", absl::StatusCodeToString(static_cast<absl::StatusCode>(record.code)));
  args.Add("model", record.model.text()).Add("priority", record.priority);
  args.Add("rows", record.rows).Add("entries", record.entries).Add("batches", record.batches);
  if (!record.trace_id.text().empty()) args.Add("trace_id", record.trace_id.text());
  out_.SpanBegin(kRequests, id, record.method, record.received, args);
  const Members which = Members().Add("request", record.number);
  out_.Slice(ThreadTrack(record.receiver), "receive", record.received, record.prepared, which);
  if (record.batches > 0) {
    out_.Span(kRequests, id, NameOf(Stage::kReply), record.results_ready, record.answered);
    out_.Slice(ThreadTrack(record.replier), NameOf(Stage::kReply), record.answering, record.answered, which);
    out_.FlowPoint(Flow::kStart, kRequestArrow, record.number, ThreadTrack(record.receiver), record.received);
    out_.FlowPoint(Flow::kEnd, kRequestArrow, record.number, ThreadTrack(record.replier), record.answering);
  }
  out_.SpanEnd(kRequests, id, record.method, record.answered);
}

// Parts of a request overlap, so each is a span apart.
void Writer::Draw(const SegmentRecord& record) {
  const TimelineIndex::Request* const request = index_.FindRequest(record.request);
  if (request == nullptr) return;
  const TimelineIndex::Batch* const batch = index_.FindBatch(record.batch);
  Members which = Members().Add("request", record.request);
  out_.Slice(ThreadTrack(record.packer), NameOf(Stage::kPack), record.pack_begin, record.pack_end, which);
  std::string id = absl::StrCat(record.request);
  if (batch != nullptr) {
    which.Add("batch", record.batch);
    out_.FlowPoint(Flow::kStep, kRequestArrow, record.request, SlotTrack(batch->slot), record.pack_end);
  }
  which.Add("rows", record.rows);
  if (!record.whole) {
    absl::StrAppend(&id, ".", ++parts_);
    out_.SpanBegin(kRequests, id, "part", record.pack_begin, which);
  } else if (request->prepared < record.pack_begin) {
    out_.Span(kRequests, id, NameOf(Stage::kQueue), request->prepared, record.pack_begin);
  }
  out_.Span(kRequests, id, NameOf(Stage::kPack), record.pack_begin, record.pack_end);
  if (record.pack_end < record.sealed) {
    out_.Span(kRequests, id, NameOf(Stage::kQueue), record.pack_end, record.sealed);
  }
  out_.Span(kRequests, id, "batch", record.sealed, record.done, which);
  if (!record.whole) out_.SpanEnd(kRequests, id, "part", record.done);
}

void Writer::Draw(const BatchRecord& record) {
  const TimelineIndex::Batch* const batch = index_.FindBatch(record.number);
  if (batch == nullptr) return;
  Members args;
  args.Add("batch", record.number).Add("model", record.model.text()).Add("requests", record.requests);
  args.Add("rows", record.rows).Add("entries", record.entries).Add("route", NameOf(record.route));
  if (record.reason != nullptr) args.Add("closed_for", record.reason);
  const TraceTrack track = SlotTrack(record.slot);
  const TracePoint begun = batch->begun == TracePoint() ? record.done : batch->begun;
  out_.Slice(track, absl::StrCat("batch ", record.number), record.opened, record.done, args);
  out_.Slice(track, "open", record.opened, record.sealed);
  out_.Slice(track, "queued", record.sealed, begun);
  out_.Slice(track, "running", begun, record.done);
}

void Writer::Draw(const TracePieceRecord& record) {
  if (record.lane == PieceRecord::kThread) {
    DrawOnThread(record);
  } else {
    DrawOnLane(record);
  }
}

void Writer::DrawOnThread(const TracePieceRecord& record) {
  const TraceTrack track = ThreadTrack(record.thread);
  out_.Slice(track, NameOf(Stage::kCompute), record.begun, record.done, PieceArgs(record));
  if (!IsAlone(record.tag)) return DrawArrow(record, track);
  if (index_.FindRequest(NumberOf(record.tag)) == nullptr) return;
  out_.FlowPoint(Flow::kStep, kRequestArrow, NumberOf(record.tag), track, record.begun);
}

void Writer::DrawOnLane(const TracePieceRecord& record) {
  const TraceTrack track = LaneTrack(record.device, record.lane);
  out_.Slice(track, absl::StrCat("batch ", NumberOf(record.tag)), record.begun, record.done, PieceArgs(record));
  out_.Slice(track, NameOf(Stage::kLaunch), record.begun, record.launched);
  DrawArrow(record, track);
}

void Writer::DrawArrow(const TracePieceRecord& record, const TraceTrack& track) {
  const TimelineIndex::Batch* const batch = index_.FindBatch(NumberOf(record.tag));
  if (batch == nullptr) return;
  ++batch_arrows_;
  out_.FlowPoint(Flow::kStart, kBatchArrow, batch_arrows_, SlotTrack(batch->slot), record.submitted);
  out_.FlowPoint(Flow::kEnd, kBatchArrow, batch_arrows_, track, record.begun);
}

void Writer::Draw(const SpanRecord& record) {
  out_.Slice(StageTrack(record.device, record.lane, record.stage), NameOf(record.stage), record.begin, record.end,
             PieceArgs(record).Add("chunk", record.chunk));
}

void Writer::Draw(const CountersRecord& record) {
  out_.Counter(kRequests, "in flight", "requests", record.time, record.in_flight);
  out_.Counter(kRequests, "queued", "requests", record.time, record.queued);
}

}  // namespace

bool WriteTimeline(const Recording& recording, const std::vector<DeviceInfo>& devices, TextSink sink) {
  return Writer(recording, sink).Write(devices);
}

}  // namespace widelane
