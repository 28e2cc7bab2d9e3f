// A place to score batches on GPUs that share a model: README.md, "Models cut over GPUs".

#ifndef WIDELANE_ENGINE_SRC_CUDA_SHARDED_LANE_H_
#define WIDELANE_ENGINE_SRC_CUDA_SHARDED_LANE_H_

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend.h"
#include "cuda/chunks.h"
#include "cuda/input_buffers.h"
#include "cuda/kernels.h"
#include "cuda/owners.h"
#include "cuda/score_arguments.h"
#include "cuda/sharded_device.h"
#include "widelane/engine/options.h"

namespace widelane::cuda {

// Mapped work is copied like any other. Any thread; Start switches to each GPU for the time of its calls.
class ShardedLane : public Lane {
 public:
  // `devices` are positions among the visible GPUs. Any thread.
  static absl::StatusOr<std::unique_ptr<ShardedLane>> Create(const EngineOptions& options,
                                                             const std::vector<int>& devices);

  absl::Status Start(const LaneWork& work) override;
  absl::Status Finish(StageTimes& stages) override;
  // Without the sums that go over the bus where GPUs cannot read one another's memory.
  CopiedBytes copied(size_t gpu) const override;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr uint32_t kSlots = InputBuffers::kSlots;

  // One GPU's. A chunk's sums go to its own memory if the first GPU may read there, else to host memory.
  struct Shard {
    int device = 0;
    std::unique_ptr<InputBuffers> inputs;
    DeviceBuffer<std::byte> scratch;
    std::array<DeviceBuffer<int64_t>, kSlots> sums;
    std::array<PinnedBuffer<int64_t>, kSlots> host_sums;
    std::array<Event, kSlots> summed;
    Stream compute;

    int64_t* Sums(uint32_t number) const {
      const uint32_t slot = number % kSlots;
      return sums[slot].data() != nullptr ? sums[slot].data() : host_sums[slot].data();
    }
  };

  ShardedLane(const EngineOptions& options, const std::vector<int>& devices);
  absl::Status Allocate();
  absl::Status AllocateShard(Shard& shard);

  absl::Status Enqueue(const LaneWork& work);
  absl::Status EnqueueChunk(const LaneWork& work, const Chunk& chunk, uint32_t number);
  // Copies the chunk to one GPU and sums what it has the weights for.
  absl::Status EnqueueSums(Shard& shard, const LaneWork& work, const ScoreArguments& chunk_arguments,
                           const Chunk& chunk, uint32_t number);
  // Adds up the sums of all on the first GPU, which writes the results.
  absl::Status EnqueueFinish(const LaneWork& work, const Chunk& chunk, uint32_t number);
  ChunkLimits LimitsOf(const LaneWork& work) const;
  absl::Status AddTimes(StageTimes& stages) const;
  absl::Status Drain(absl::Status status) const;

  const EngineOptions options_;
  const std::chrono::microseconds spin_;
  // Of the work between Start and Finish.
  uint32_t chunks_ = 0;
  uint64_t result_bytes_ = 0;
  std::chrono::microseconds patience_{0};
  Clock::time_point started_;
  Clock::time_point launched_;

  std::unique_ptr<LongRows> long_rows_;
  Event begun_;                         // on the first GPU: the first chunk is there
  std::array<Event, kSlots> finished_;  // on the first GPU: a chunk's results are there
  std::vector<Shard> shards_;
};

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_SHARDED_LANE_H_
