#include "cuda/sharded_lane.h"

#include <algorithm>
#include <utility>

#include "cuda/cuda_error.h"
#include "cuda/current_device.h"
#include "cuda/lane_work.h"
#include "spin.h"

namespace widelane::cuda {
namespace {

// Whether kernels on `reader`, the current device, may read the memory of `owner`.
bool MayRead(int reader, int owner) {
  if (reader == owner) return true;
  int yes = 0;
  cudaError_t code = cudaDeviceCanAccessPeer(&yes, reader, owner);
  if (code == cudaSuccess && yes != 0) code = cudaDeviceEnablePeerAccess(owner, 0);
  if (code != cudaSuccess) (void)cudaGetLastError();  // or the next launch would be blamed for it
  return yes != 0 && (code == cudaSuccess || code == cudaErrorPeerAccessAlreadyEnabled);
}

}  // namespace

ShardedLane::ShardedLane(const EngineOptions& options, const std::vector<int>& devices)
    : options_(options), spin_(SpinTime(options)), shards_(devices.size()) {
  for (size_t i = 0; i < devices.size(); ++i) shards_[i].device = devices[i];
}

absl::StatusOr<std::unique_ptr<ShardedLane>> ShardedLane::Create(const EngineOptions& options,
                                                                 const std::vector<int>& devices) {
  std::unique_ptr<ShardedLane> lane(new ShardedLane(options, devices));
  if (absl::Status status = lane->Allocate(); !status.ok()) return status;
  return lane;
}

absl::Status ShardedLane::Allocate() {
  const int first = shards_.front().device;
  for (Shard& shard : shards_) {
    if (absl::Status status = AllocateShard(shard); !status.ok()) return status;
  }
  const ScopedDevice scope(first);
  if (!scope.status().ok()) return scope.status();
  absl::Status status = Keep(LongRows::Create(options_.slab.entries, first), long_rows_);
  status.Update(Keep(CreateTimedEvent(first), begun_));
  for (Event& event : finished_) status.Update(Keep(CreateTimedEvent(first), event));
  return status;
}

absl::Status ShardedLane::AllocateShard(Shard& shard) {
  const int first = shards_.front().device;
  bool readable = false;
  {
    const ScopedDevice scope(first);
    if (!scope.status().ok()) return scope.status();
    readable = MayRead(first, shard.device);
  }
  const ScopedDevice scope(shard.device);
  if (!scope.status().ok()) return scope.status();
  const size_t results = options_.slab.results;
  // Contexts are added once, by the first GPU.
  const bool with_contexts = &shard == &shards_.front();
  absl::Status status = Keep(InputBuffers::Create(options_, shard.device, with_contexts), shard.inputs);
  status.Update(Keep(CreateDeviceBuffer<std::byte>(ScratchBytes(results), shard.device), shard.scratch));
  for (uint32_t i = 0; i < kSlots; ++i) {
    status.Update(readable ? Keep(CreateDeviceBuffer<int64_t>(results, shard.device), shard.sums[i])
                           : Keep(CreatePinnedBuffer<int64_t>(results, shard.device), shard.host_sums[i]));
    status.Update(Keep(CreateEvent(shard.device), shard.summed[i]));
  }
  status.Update(Keep(CreateStream(shard.device), shard.compute));
  return status;
}

absl::Status ShardedLane::Start(const LaneWork& work) {
  chunks_ = 0;
  started_ = Clock::now();
  patience_ = PatienceFor(work, spin_);
  if (WantsNothing(work)) return absl::OkStatus();
  if (absl::Status status = CheckFits(options_.slab, work); !status.ok()) return status;
  if (options_.check_pinned) DieUnlessAllPinned(*work.batch);
  long_rows_->Reset();
  if (absl::Status status = Enqueue(work); !status.ok()) return Drain(std::move(status));
  launched_ = Clock::now();
  result_bytes_ = BytesOfResults(work);
  return absl::OkStatus();
}

CopiedBytes ShardedLane::copied(size_t gpu) const {
  if (chunks_ == 0 || gpu >= shards_.size()) return {};
  return {shards_[gpu].inputs->bytes(), gpu == 0 ? result_bytes_ : 0};
}

absl::Status ShardedLane::Enqueue(const LaneWork& work) {
  const ChunkLimits limits = LimitsOf(work);
  const uint32_t end = work.first_row + work.rows;
  for (uint32_t row = work.first_row; row < end;) {
    const Chunk chunk = NextChunk(*work.batch, row, end, limits);
    if (absl::Status status = EnqueueChunk(work, chunk, chunks_); !status.ok()) return status;
    row += chunk.rows;
    ++chunks_;
  }
  return absl::OkStatus();
}

// A chunk's sums must fit; where not even a group's do, rows go one by one as far as they must.
ChunkLimits ShardedLane::LimitsOf(const LaneWork& work) const {
  ChunkLimits limits = shards_.front().inputs->Limits(*work.batch);
  limits.rows = options_.slab.results / work.model->outputs();
  if (limits.rows < kGroupRows) limits.row_step = 1;
  return limits;
}

absl::Status ShardedLane::EnqueueChunk(const LaneWork& work, const Chunk& chunk, uint32_t number) {
  // The list of long rows is the same for all.
  ScoreArguments chunk_arguments;
  chunk_arguments.outputs = work.model->outputs();
  chunk_arguments.rows = chunk.rows;
  chunk_arguments.first_entry = shards_.front().inputs->FirstEntry(*work.batch, chunk);
  long_rows_->Cut(FromRow(*work.batch, chunk.first_row, work.model->outputs()), chunk_arguments);
  for (Shard& shard : shards_) {
    const ScopedDevice scope(shard.device);
    absl::Status status = scope.status();
    if (status.ok()) status = EnqueueSums(shard, work, chunk_arguments, chunk, number);
    if (!status.ok()) return status;
  }
  const ScopedDevice scope(shards_.front().device);
  if (!scope.status().ok()) return scope.status();
  return EnqueueFinish(work, chunk, number);
}

absl::Status ShardedLane::EnqueueSums(Shard& shard, const LaneWork& work, const ScoreArguments& chunk_arguments,
                                      const Chunk& chunk, uint32_t number) {
  const uint32_t slot = number % kSlots;
  const BatchView& batch = *work.batch;
  const bool first_use = number < kSlots;
  const cudaEvent_t slot_free = first_use ? nullptr : shard.summed[slot].get();
  if (absl::Status status = shard.inputs->CopyChunk(work, chunk, number, slot_free); !status.ok()) return status;

  const size_t part = static_cast<size_t>(&shard - shards_.data());
  ScoreArguments arguments = static_cast<const ShardedResident*>(work.resident)->parts[part]->Arguments(*work.model);
  SetRows(shard.inputs->View(batch, chunk, number), batch, chunk.first_row, chunk.rows, chunk_arguments.first_entry,
          arguments);
  arguments.cut = chunk_arguments.cut;
  arguments.pieces = chunk_arguments.pieces;
  arguments.long_rows = chunk_arguments.long_rows;
  arguments.partial = shard.Sums(number);
  arguments.scratch = shard.scratch.data();
  arguments.scratch_bytes = shard.scratch.size();

  const cudaStream_t stream = shard.compute.get();
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(stream, shard.inputs->Copied(number), 0), shard.device);
  // The former chunk's sums have been read.
  if (!first_use) WIDELANE_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(stream, finished_[slot].get(), 0), shard.device);
  if (number == 0 && part == 0) WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventRecord(begun_.get(), stream), shard.device);
  WIDELANE_CUDA_RETURN_IF_ERROR(LaunchScore(arguments, stream), shard.device);
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventRecord(shard.summed[slot].get(), stream), shard.device);
  return absl::OkStatus();
}

absl::Status ShardedLane::EnqueueFinish(const LaneWork& work, const Chunk& chunk, uint32_t number) {
  const Shard& first = shards_.front();
  const uint32_t slot = number % kSlots;
  const uint32_t outputs = work.model->outputs();
  const cudaStream_t stream = first.compute.get();
  std::array<const int64_t*, kMaxPartials> sums{};
  for (size_t i = 0; i < shards_.size(); ++i) {
    WIDELANE_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(stream, shards_[i].summed[slot].get(), 0), first.device);
    sums[i] = shards_[i].Sums(number);
  }
  ScoreArguments arguments = static_cast<const ShardedResident*>(work.resident)->parts.front()->Arguments(*work.model);
  SetRows(first.inputs->View(*work.batch, chunk, number), *work.batch, chunk.first_row, chunk.rows,
          first.inputs->FirstEntry(*work.batch, chunk), arguments);
  SetResults(FromRow(*work.batch, chunk.first_row, outputs), arguments);
  arguments.scratch = first.scratch.data();
  arguments.scratch_bytes = first.scratch.size();
  WIDELANE_CUDA_RETURN_IF_ERROR(
      LaunchFinishPartial(arguments, sums.data(), static_cast<uint32_t>(shards_.size()), stream), first.device);
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventRecord(finished_[slot].get(), stream), first.device);
  return absl::OkStatus();
}

absl::Status ShardedLane::Finish(StageTimes& stages) {
  if (chunks_ == 0) return absl::OkStatus();
  const int first = shards_.front().device;
  absl::Status status = WaitFor(finished_[(chunks_ - 1) % kSlots].get(), patience_, first);
  if (status.ok()) status = AddTimes(stages);
  return status.ok() ? status : Drain(std::move(status));
}

// Computing lasts from the first chunk's arrival on the first GPU to the last result, waits for the others included.
absl::Status ShardedLane::AddTimes(StageTimes& stages) const {
  stages[Stage::kLaunch] += launched_ - started_;
  std::chrono::nanoseconds longest{0};
  for (const Shard& shard : shards_) {
    const auto time = shard.inputs->TransferTime(chunks_ - 1);
    if (!time.ok()) return time.status();
    longest = std::max(longest, *time);
  }
  stages[Stage::kTransferIn] += longest;
  const auto compute = TimeBetween(begun_.get(), finished_[(chunks_ - 1) % kSlots].get(), shards_.front().device);
  if (!compute.ok()) return compute.status();
  stages[Stage::kCompute] += *compute;
  return absl::OkStatus();
}

absl::Status ShardedLane::Drain(absl::Status status) const {
  for (const Shard& shard : shards_) {
    shard.inputs->Drain();
    (void)cudaStreamSynchronize(shard.compute.get());
  }
  return status;
}

}  // namespace widelane::cuda
