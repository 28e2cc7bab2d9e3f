#include "cuda/cuda_lane.h"

#include <algorithm>
#include <utility>

#include "cuda/cuda_error.h"
#include "cuda/current_device.h"
#include "cuda/lane_work.h"
#include "cuda/resident.h"
#include "numeric.h"
#include "spin.h"

namespace widelane::cuda {
namespace {

// Results beyond this are copied out from device memory, in chunks of up to kResultBytes; fewer are written to the host
// by the kernels, which costs no call and no wait.
constexpr size_t kMostWrittenBytes = size_t{1} << 20;
constexpr size_t kResultBytes = size_t{4} << 20;

size_t ResultBytes(const BatchView& batch) {
  return (batch.scores != nullptr ? sizeof(*batch.scores) : 0) + (batch.raw != nullptr ? sizeof(*batch.raw) : 0);
}

// A few bytes a row never hold the kernels up. Raw sums that kernels read again are better in device memory.
bool CopiesOut(const LaneWork& work) {
  const BatchView& batch = *work.batch;
  if (batch.raw != nullptr && batch.scores != nullptr && !numeric::IsPointwise(work.model->link())) return true;
  const size_t row_bytes = ResultBytes(batch) * work.model->outputs();
  return row_bytes > sizeof(float) + sizeof(double) && row_bytes * work.rows > kMostWrittenBytes;
}

}  // namespace

CudaLane::CudaLane(const EngineOptions& options, int device)
    : options_(options), spin_(SpinTime(options)), device_(device) {}

absl::StatusOr<std::unique_ptr<CudaLane>> CudaLane::Create(const EngineOptions& options, int device) {
  std::unique_ptr<CudaLane> lane(new CudaLane(options, device));
  if (absl::Status status = lane->Allocate(); !status.ok()) return status;
  return lane;
}

absl::Status CudaLane::Allocate() {
  absl::Status status = Keep(InputBuffers::Create(options_, device_, true), inputs_);
  status.Update(Keep(LongRows::Create(options_.slab.entries, device_), long_rows_));
  status.Update(Keep(CreateDeviceBuffer<std::byte>(ScratchBytes(options_.slab.results), device_), scratch_));
  const size_t slab_bytes = size_t{options_.slab.results} * (sizeof(float) + sizeof(double));
  for (DeviceBuffer<std::byte>& results : results_) {
    status.Update(Keep(CreateDeviceBuffer<std::byte>(std::min(kResultBytes, slab_bytes), device_), results));
  }
  status.Update(Keep(HostClock::Create(device_), host_clock_));
  status.Update(CreateEvents());
  status.Update(Keep(CreateStream(device_), compute_));
  status.Update(Keep(CreateStream(device_), copy_out_));
  return status;
}

absl::Status CudaLane::CreateEvents() {
  absl::Status status = Keep(CreateEvent(device_), mapped_done_);
  for (ChunkEvents& events : chunk_events_) {
    for (Event* event : {&events.begun, &events.computed, &events.taken_out}) {
      status.Update(Keep(CreateTimedEvent(device_), *event));
    }
  }
  return status;
}

absl::Status CudaLane::Start(const LaneWork& work) {
  pending_ = {};
  pending_.begun = Clock::now();
  pending_.patience = PatienceFor(work, spin_);
  if (absl::Status status = BindThread(device_); !status.ok()) return status;
  if (WantsNothing(work)) return absl::OkStatus();
  if (absl::Status status = CheckFits(options_.slab, work); !status.ok()) return status;
  if (options_.check_pinned) DieUnlessAllPinned(*work.batch);
  long_rows_->Reset();
  pending_.record = work.record;
  if (work.record != nullptr && !work.mapped) {
    // A timeline that cannot be had is no reason to fail.
    if (!host_clock_->Renew(compute_.get()).ok()) pending_.record = nullptr;
    pending_.begun = Clock::now();
  }
  if (absl::Status status = work.mapped ? StartMapped(work) : StartCopied(work); !status.ok()) {
    return Drain(std::move(status));
  }
  pending_.launched = Clock::now();
  pending_.copied = {work.mapped ? BytesOfInput(work) : inputs_->bytes(), BytesOfResults(work)};
  return absl::OkStatus();
}

absl::Status CudaLane::StartMapped(const LaneWork& work) {
  const BatchView view = FromRow(*work.batch, work.first_row, work.model->outputs());
  ScoreArguments arguments = static_cast<const CudaResident*>(work.resident)->Arguments(*work.model);
  SetRows(*work.batch, *work.batch, work.first_row, work.rows, 0, arguments);
  SetResults(view, arguments);
  long_rows_->Cut(view, arguments);
  if (absl::Status status = Launch(arguments); !status.ok()) return status;
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventRecord(mapped_done_.get(), compute_.get()), device_);
  pending_.done = mapped_done_.get();
  pending_.mapped = true;
  return absl::OkStatus();
}

absl::Status CudaLane::StartCopied(const LaneWork& work) {
  pending_.copies_out = CopiesOut(work);
  const ChunkLimits limits = LimitsOf(work);
  const uint32_t end = work.first_row + work.rows;
  for (uint32_t row = work.first_row; row < end;) {
    const Chunk chunk = NextChunk(*work.batch, row, end, limits);
    if (absl::Status status = EnqueueChunk(work, chunk); !status.ok()) return status;
    row += chunk.rows;
  }
  return absl::OkStatus();
}

ChunkLimits CudaLane::LimitsOf(const LaneWork& work) const {
  const BatchView& batch = *work.batch;
  ChunkLimits limits = inputs_->Limits(batch);
  if (pending_.copies_out) {
    const size_t rows = results_[0].size() / (ResultBytes(batch) * work.model->outputs());
    limits.rows = static_cast<uint32_t>(std::min<size_t>(limits.rows, rows));
  }
  return limits;
}

absl::Status CudaLane::EnqueueChunk(const LaneWork& work, const Chunk& chunk) {
  const uint32_t number = pending_.chunks;
  // The chunk that was in the same slots.
  const ChunkEvents* former = number < kSlots ? nullptr : &EventsOf(number - kSlots);
  const cudaEvent_t slot_free = former == nullptr ? nullptr : former->computed.get();
  if (absl::Status status = inputs_->CopyChunk(work, chunk, number, slot_free); !status.ok()) return status;

  WIDELANE_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(compute_.get(), inputs_->Copied(number), 0), device_);
  if (pending_.copies_out && former != nullptr) {
    WIDELANE_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(compute_.get(), former->taken_out.get(), 0), device_);
  }
  const BatchView host = FromRow(*work.batch, chunk.first_row, work.model->outputs());
  const BatchView results = ResultsOf(host, chunk, number, work.model->outputs());
  if (absl::Status status = EnqueueKernels(work, chunk, host, results); !status.ok()) return status;
  pending_.done = EventsOf(number).computed.get();
  if (pending_.copies_out) {
    const size_t count = size_t{chunk.rows} * work.model->outputs();
    if (absl::Status status = EnqueueCopyOut(results, host, count); !status.ok()) return status;
    pending_.done = EventsOf(number).taken_out.get();
  }
  if (number < kTimedChunks) pending_.timed_entries += chunk.entries;
  pending_.entries += chunk.entries;
  ++pending_.chunks;
  return absl::OkStatus();
}

absl::Status CudaLane::EnqueueKernels(const LaneWork& work, const Chunk& chunk, const BatchView& host,
                                      const BatchView& results) {
  const uint32_t number = pending_.chunks;
  ScoreArguments arguments = static_cast<const CudaResident*>(work.resident)->Arguments(*work.model);
  SetRows(inputs_->View(*work.batch, chunk, number), *work.batch, chunk.first_row, chunk.rows,
          inputs_->FirstEntry(*work.batch, chunk), arguments);
  SetResults(results, arguments);
  long_rows_->Cut(host, arguments);
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventRecord(EventsOf(number).begun.get(), compute_.get()), device_);
  if (absl::Status status = Launch(arguments); !status.ok()) return status;
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventRecord(EventsOf(number).computed.get(), compute_.get()), device_);
  return absl::OkStatus();
}

BatchView CudaLane::ResultsOf(const BatchView& host, const Chunk& chunk, uint32_t number, size_t outputs) const {
  const DeviceBuffer<std::byte>& buffer = results_[number % kSlots];
  if (!pending_.copies_out || chunk.rows * outputs * ResultBytes(host) > buffer.size()) return host;
  BatchView results = host;
  std::byte* next = buffer.data();
  if (host.raw != nullptr) {
    results.raw = reinterpret_cast<double*>(next);
    next += chunk.rows * outputs * sizeof(double);
  }
  if (host.scores != nullptr) results.scores = reinterpret_cast<float*>(next);
  return results;
}

absl::Status CudaLane::EnqueueCopyOut(const BatchView& from, const BatchView& host, size_t results) {
  const ChunkEvents& events = EventsOf(pending_.chunks);
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(copy_out_.get(), events.computed.get(), 0), device_);
  if (from.raw != host.raw) {
    WIDELANE_CUDA_RETURN_IF_ERROR(
        cudaMemcpyAsync(host.raw, from.raw, results * sizeof(double), cudaMemcpyDeviceToHost, copy_out_.get()),
        device_);
  }
  if (from.scores != host.scores) {
    WIDELANE_CUDA_RETURN_IF_ERROR(
        cudaMemcpyAsync(host.scores, from.scores, results * sizeof(float), cudaMemcpyDeviceToHost, copy_out_.get()),
        device_);
  }
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventRecord(events.taken_out.get(), copy_out_.get()), device_);
  return absl::OkStatus();
}

absl::Status CudaLane::Launch(const ScoreArguments& arguments) {
  ScoreArguments launched = arguments;
  launched.scratch = scratch_.data();
  launched.scratch_bytes = scratch_.size();
  WIDELANE_CUDA_RETURN_IF_ERROR(LaunchScore(launched, compute_.get()), device_);
  return absl::OkStatus();
}

absl::Status CudaLane::Finish(StageTimes& stages) {
  if (pending_.done == nullptr) return absl::OkStatus();
  if (absl::Status status = WaitFor(pending_.done, pending_.patience, device_); !status.ok())
    return Drain(std::move(status));
  stages[Stage::kLaunch] += pending_.launched - pending_.begun;
  if (!pending_.mapped) {
    if (pending_.record != nullptr && !AddSpans(*pending_.record).ok()) pending_.record->span_count = 0;
    return AddTimes(stages);
  }
  const Clock::time_point now = Clock::now();
  stages[Stage::kCompute] += now - pending_.launched;
  if (pending_.record != nullptr) pending_.record->Add({Stage::kCompute, 0, pending_.launched, now});
  return absl::OkStatus();
}

absl::Status CudaLane::AddTimes(StageTimes& stages) const {
  const absl::StatusOr<std::chrono::nanoseconds> in = inputs_->TransferTime(pending_.chunks - 1);
  if (!in.ok()) return in.status();
  stages[Stage::kTransferIn] += *in;
  StageTimes sum;
  for (uint32_t number = 0; number < std::min(pending_.chunks, kTimedChunks); ++number) {
    if (absl::Status status = AddChunkTimes(number, sum); !status.ok()) return status;
  }
  const double untimed = pending_.timed_entries == 0
                             ? 1.0
                             : static_cast<double>(pending_.entries) / static_cast<double>(pending_.timed_entries);
  for (const Stage stage : {Stage::kCompute, Stage::kTransferOut}) {
    stages[stage] += std::chrono::duration_cast<std::chrono::nanoseconds>(sum[stage] * untimed);
  }
  return absl::OkStatus();
}

// A copy out begins when its chunk is computed or the one before is out, whichever is later.
absl::Status CudaLane::AddChunkTimes(uint32_t number, StageTimes& sum) const {
  const ChunkEvents& events = EventsOf(number);
  const auto compute = TimeBetween(events.begun.get(), events.computed.get(), device_);
  if (!compute.ok()) return compute.status();
  sum[Stage::kCompute] += *compute;
  if (!pending_.copies_out) return absl::OkStatus();
  auto out = TimeBetween(events.computed.get(), events.taken_out.get(), device_);
  if (!out.ok()) return out.status();
  if (number > 0) {
    const auto since_last = TimeBetween(EventsOf(number - 1).taken_out.get(), events.taken_out.get(), device_);
    if (!since_last.ok()) return since_last.status();
    out = std::min(*out, *since_last);
  }
  sum[Stage::kTransferOut] += *out;
  return absl::OkStatus();
}

absl::Status CudaLane::Drain(absl::Status status) const {
  inputs_->Drain();
  (void)cudaStreamSynchronize(compute_.get());
  (void)cudaStreamSynchronize(copy_out_.get());
  return status;
}

}  // namespace widelane::cuda
