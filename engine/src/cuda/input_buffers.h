// What batches need on one GPU before kernels run: a stream that copies, device buffers for the arrays of all rows, and
// a ring of slots for the entries of a chunk each, so that one chunk is copied while another is computed.

#ifndef WIDELANE_ENGINE_SRC_CUDA_INPUT_BUFFERS_H_
#define WIDELANE_ENGINE_SRC_CUDA_INPUT_BUFFERS_H_

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backend.h"
#include "cuda/chunks.h"
#include "cuda/owners.h"
#include "widelane/engine/batch_view.h"
#include "widelane/engine/options.h"

namespace widelane::cuda {

// One batch at a time, by a thread whose current device is the one they were made on.
class InputBuffers {
 public:
  // Two are enough: a chunk is computed faster than the next one is copied, or the copies do not matter.
  static constexpr uint32_t kSlots = 2;
  // Chunks that are timed one by one.
  static constexpr uint32_t kTimedChunks = 8;
  // Which of kTimedChunks + kSlots events is chunk `number`'s: the last ones serve all after the timed ones in turn.
  static constexpr uint32_t EventOf(uint32_t number) {
    return number < kTimedChunks ? number : kTimedChunks + number % kSlots;
  }

  // On the current device, which is `device`: options.lane_bytes for the slots, or what slabs can need if that is less,
  // 10 bytes for each row and, `with_contexts`, what contexts take. Without, View's contexts are the batch's own.
  static absl::StatusOr<std::unique_ptr<InputBuffers>> Create(const EngineOptions& options, int device,
                                                              bool with_contexts);

  // How this batch is best cut for the slots.
  ChunkLimits Limits(const BatchView& batch) const;

  // Enqueues the copies of a chunk's entries, into a slot whose former chunk is computed after `slot_free` (null: there
  // was none), and behind those of chunk 0 the arrays by row of the whole work and all context sums. A chunk that no
  // slot holds stays where it is: kernels then read it in host memory. The chunks of a work are numbered from 0.
  absl::Status CopyChunk(const LaneWork& work, const Chunk& chunk, uint32_t number, cudaEvent_t slot_free);
  // Passed when chunk `number`, all before it, the arrays by row and the context sums are there.
  cudaEvent_t Copied(uint32_t number) const { return copied_[EventOf(number)].get(); }
  // Passed when chunk 0 is to be copied.
  cudaEvent_t Started() const { return started_.get(); }

  // The batch as kernels are to see it: the copies in place of what has been copied. Where rows are uniform, arrays
  // that say where they begin are not to be read.
  BatchView View(const BatchView& batch, const Chunk& chunk, uint32_t number) const;
  // Number of the entry that is element 0 of View's indices and values.
  uint32_t FirstEntry(const BatchView& batch, const Chunk& chunk) const {
    return Holds(batch, chunk) ? chunk.first_entry : 0;
  }

  // Bytes that kernels get of the work's chunks so far, copied or not.
  uint64_t bytes() const { return bytes_; }
  // From the first copy to the last, chunk `last`'s, which is done.
  absl::StatusOr<std::chrono::nanoseconds> TransferTime(uint32_t last) const;
  // Waits until no copy runs any more, after a failure.
  void Drain() const { (void)cudaStreamSynchronize(stream_.get()); }

 private:
  InputBuffers(bool check_pinned, int device, bool with_contexts)
      : check_pinned_(check_pinned), device_(device), with_contexts_(with_contexts) {}
  absl::Status Allocate(const EngineOptions& options);
  uint32_t SlotEntries(const BatchView& batch) const;
  bool Holds(const BatchView& batch, const Chunk& chunk) const {
    return chunk.entries <= SlotEntries(batch) + kEntryAlignment;
  }
  // Where a slot's values are, behind its indices.
  std::byte* ValuesOf(const BatchView& batch, uint32_t number) const;

  absl::Status CopyEntries(const BatchView& batch, const Chunk& chunk, uint32_t number);
  absl::Status CopyRows(const BatchView& batch, uint32_t first_row, uint32_t rows);
  // Where rows begin and end, which nobody needs for uniform ones: it follows from their length.
  absl::Status CopyLengths(const BatchView& batch, uint32_t first_row, uint32_t rows);
  bool CopiesContexts(const BatchView& batch) const { return with_contexts_ && batch.context_sums != nullptr; }
  absl::Status CopyContexts(const LaneWork& work);

  template <typename T>
  absl::Status CopyIn(const char* array, const T* from, size_t count, void* to);

  const bool check_pinned_;
  const int device_;
  const bool with_contexts_;
  uint64_t bytes_ = 0;
  DeviceBuffer<uint32_t> row_begin_;
  DeviceBuffer<uint32_t> group_begin_;
  DeviceBuffer<uint16_t> lengths_;  // or bytes
  DeviceBuffer<float> row_max_;
  DeviceBuffer<int64_t> context_sums_;
  DeviceBuffer<uint16_t> context_line_;
  std::array<DeviceBuffer<std::byte>, kSlots> slots_;
  std::array<Event, kTimedChunks + kSlots> copied_;
  Event started_;
  Stream stream_;  // last, so that it is destroyed before what it uses
};

// Between two timed events that have passed.
absl::StatusOr<std::chrono::nanoseconds> TimeBetween(cudaEvent_t from, cudaEvent_t to, int device);

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_INPUT_BUFFERS_H_
