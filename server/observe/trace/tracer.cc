#include "server/observe/trace/tracer.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/status/status.h"

namespace widelane {

void Tracer::GiveBack::operator()(Recording* recording) const {
  delete recording;
  tracer->OnGivenBack();
}

void Tracer::SetSources(std::vector<DeviceInfo> devices, std::function<Counters()> counters) {
  const std::lock_guard lock(mutex_);
  devices_ = std::move(devices);
  counters_ = std::move(counters);
}

std::vector<DeviceInfo> Tracer::devices() const {
  const std::lock_guard lock(mutex_);
  return devices_;
}

absl::StatusOr<Tracer::RecordingHandle> Tracer::Record(std::chrono::nanoseconds time) {
  std::unique_lock lock(mutex_);
  if (stopping_) return absl::UnavailableError("the server is stopping");
  if (given_out_) return absl::FailedPreconditionError("another timeline is being recorded or sent");
  std::unique_ptr<Recording> made = Recording::Create(bytes_);
  if (made == nullptr) return absl::ResourceExhaustedError("the server has no memory for a timeline");
  RecordingHandle recording(made.release(), GiveBack{this});
  given_out_ = true;
  under_way_ = true;
  Begin(*recording);
  const TracePoint end = recording->start + time;
  for (TracePoint now = recording->start; now < end && !stopping_; now = clock_.Now()) {
    Sample();
    clock_.Wait(lock, changed_, std::min(end, now + kSamplePeriod));
  }
  End(*recording);
  under_way_ = false;
  changed_.notify_all();
  lock.unlock();  // the handle may be dropped by who gets it
  return recording;
}

void Tracer::Begin(Recording& recording) {
  recording.start = clock_.Now();
  recording.started_at = std::chrono::system_clock::now();
  recording.first_request = requests_.load() + 1;
  recording.first_batch = batches_.load() + 1;
  recording_.store(&recording, std::memory_order_seq_cst);
  on_.store(true, std::memory_order_relaxed);
}

// Nobody writes to the recording once this returns. A writer counts itself before it reads recording_, and all four
// accesses are sequentially consistent: if it found the recording, its count comes before our store of null in their
// one order, so that we see it until the writer takes it back, when it is through. Whoever counts itself later finds
// null. A writer is through after a copy, so nothing but a look again is worth while.
void Tracer::End(Recording& recording) {
  on_.store(false, std::memory_order_relaxed);
  recording_.store(nullptr, std::memory_order_seq_cst);
  for (const Writers& writers : writers_) {
    while (writers.count.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
  }
  recording.end = clock_.Now();
  recording.last_request = requests_.load();
  recording.last_batch = batches_.load();
}

void Tracer::Sample() {
  if (!counters_) return;
  const Counters counters = counters_();
  CountersRecord record;
  record.in_flight = counters.in_flight;
  record.queued = counters.queued;
  record.time = clock_.Now();
  Write(record);
}

void Tracer::Stop() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return !under_way_; });
  changed_.wait_for(lock, kSendTime, [this] { return !given_out_; });
}

void Tracer::OnGivenBack() {
  const std::lock_guard lock(mutex_);
  given_out_ = false;
  changed_.notify_all();
}

void Tracer::OnPiece(const PieceRecord& piece) {
  TracePieceRecord record;
  record.thread = ThreadNumber();
  record.lane = piece.lane;
  record.device = static_cast<uint32_t>(piece.device);
  record.rows = piece.rows;
  record.route = piece.route;
  record.entries = piece.entries;
  record.tag = piece.tag;
  record.submitted = piece.submitted;
  record.begun = piece.begun;
  record.launched = piece.launched;
  record.done = piece.done;
  Write(record);
  for (size_t i = 0; i < piece.span_count; ++i) {
    const StageSpan& from = piece.spans[i];
    SpanRecord span;
    span.lane = piece.lane;
    span.device = record.device;
    span.chunk = from.chunk;
    span.rows = piece.rows;
    span.stage = from.stage;
    span.route = piece.route;
    span.entries = piece.entries;
    span.tag = piece.tag;
    span.begin = from.begin;
    span.end = from.end;
    Write(span);
  }
}

}  // namespace widelane
