// A place on one GPU to score batches: streams, buffers and events, all of which are made at creation.

#ifndef WIDELANE_ENGINE_SRC_CUDA_CUDA_LANE_H_
#define WIDELANE_ENGINE_SRC_CUDA_CUDA_LANE_H_

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "backend.h"
#include "cuda/chunks.h"
#include "cuda/host_clock.h"
#include "cuda/input_buffers.h"
#include "cuda/kernels.h"
#include "cuda/owners.h"
#include "cuda/score_arguments.h"
#include "widelane/engine/options.h"

namespace widelane::cuda {

// README.md, "One batch". Any thread, which Start binds to the GPU.
class CudaLane : public Lane {
 public:
  // On the current device, which is `device`.
  static absl::StatusOr<std::unique_ptr<CudaLane>> Create(const EngineOptions& options, int device);

  absl::Status Start(const LaneWork& work) override;
  absl::Status Finish(StageTimes& stages) override;
  CopiedBytes copied(size_t /*gpu*/) const override { return pending_.copied; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr uint32_t kSlots = InputBuffers::kSlots;
  // Chunks whose kernels and copies out are timed one by one; what comes after is taken to be like them.
  static constexpr uint32_t kTimedChunks = InputBuffers::kTimedChunks;

  // Of one chunk. Timed, and each a stage's end.
  struct ChunkEvents {
    Event begun;      // its entries are there
    Event computed;   // its kernels are done
    Event taken_out;  // its results are on the host, where they are copied
  };

  // What Start leaves to Finish.
  struct Pending {
    cudaEvent_t done = nullptr;  // null: there is nothing to wait for
    bool mapped = false;
    bool copies_out = false;
    uint32_t chunks = 0;
    uint64_t entries = 0;
    uint64_t timed_entries = 0;  // of the first kTimedChunks chunks
    CopiedBytes copied;
    Clock::time_point begun;
    Clock::time_point launched;
    PieceRecord* record = nullptr;
    std::chrono::microseconds patience{0};
  };

  CudaLane(const EngineOptions& options, int device);
  absl::Status Allocate();
  absl::Status CreateEvents();

  absl::Status StartMapped(const LaneWork& work);
  absl::Status StartCopied(const LaneWork& work);
  ChunkLimits LimitsOf(const LaneWork& work) const;
  // One chunk: its copy in, kernels and copy out. `host` is the batch from the chunk's first row on.
  absl::Status EnqueueChunk(const LaneWork& work, const Chunk& chunk);
  absl::Status EnqueueKernels(const LaneWork& work, const Chunk& chunk, const BatchView& host,
                              const BatchView& results);
  // Where chunk `number`'s kernels write: device memory that `host`, which has the chunk's first row as row 0, is
  // copied from; or `host` itself when they do not fit.
  BatchView ResultsOf(const BatchView& host, const Chunk& chunk, uint32_t number, size_t outputs) const;
  absl::Status EnqueueCopyOut(const BatchView& from, const BatchView& host, size_t results);
  absl::Status Launch(const ScoreArguments& arguments);

  absl::Status AddTimes(StageTimes& stages) const;
  absl::Status AddChunkTimes(uint32_t number, StageTimes& sum) const;
  const ChunkEvents& EventsOf(uint32_t number) const { return chunk_events_[InputBuffers::EventOf(number)]; }
  // cuda_lane_record.cc: when the stages of each chunk ran.
  absl::Status AddSpans(PieceRecord& record);
  absl::Status AddChunkSpans(uint32_t number, PieceRecord& record);
  absl::StatusOr<Clock::time_point> CopyBegan(uint32_t number) const;
  absl::Status AddSpan(Stage stage, uint32_t chunk, Clock::time_point begin, cudaEvent_t end, PieceRecord& record);
  // Waits until nothing runs, after a failure.
  absl::Status Drain(absl::Status status) const;

  const EngineOptions options_;
  const std::chrono::microseconds spin_;
  const int device_;
  Pending pending_;

  std::unique_ptr<HostClock> host_clock_;
  std::array<Clock::time_point, kStages> told_until_{};  // by stage: the end of its last span
  std::unique_ptr<InputBuffers> inputs_;
  std::unique_ptr<LongRows> long_rows_;
  DeviceBuffer<std::byte> scratch_;
  std::array<DeviceBuffer<std::byte>, kSlots> results_;  // raw sums, then scores
  std::array<ChunkEvents, kTimedChunks + kSlots> chunk_events_;
  Event mapped_done_;
  Stream compute_;  // the streams last, so that they are destroyed before what they use
  Stream copy_out_;
};

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_CUDA_LANE_H_
