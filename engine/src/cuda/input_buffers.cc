#include "cuda/input_buffers.h"

#include <algorithm>

#include "cuda/cuda_error.h"
#include "cuda/pinned_memory.h"

namespace widelane::cuda {
namespace {

// Kernels read indices in words of 8 bytes; buffers begin on such lines.
constexpr size_t kAlignment = 256;

// Below this a copy is bound by its start rather than by the bus.
constexpr size_t kLastChunkBytes = size_t{1} << 20;

constexpr size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

size_t IndexBytes(const BatchView& batch) {
  return batch.indices16 != nullptr ? sizeof(*batch.indices16) : sizeof(*batch.indices32);
}

size_t ValueBytes(const BatchView& batch) {
  if (batch.values16 != nullptr) return sizeof(*batch.values16);
  return batch.values32 != nullptr ? sizeof(*batch.values32) : 0;
}

size_t EntryBytes(const BatchView& batch) { return IndexBytes(batch) + ValueBytes(batch); }

// The entries that a slot may be asked to hold at most, in the widest layout.
size_t WidestSlot(const SlabOptions& slab) {
  constexpr size_t kEntryBytes = sizeof(uint32_t) + sizeof(float);
  return (size_t{slab.entries} + size_t{2} * kEntryAlignment) * kEntryBytes + 2 * kAlignment;
}

}  // namespace

absl::StatusOr<std::unique_ptr<InputBuffers>> InputBuffers::Create(const EngineOptions& options, int device,
                                                                   bool with_contexts) {
  std::unique_ptr<InputBuffers> buffers(new InputBuffers(options.check_pinned, device, with_contexts));
  if (absl::Status status = buffers->Allocate(options); !status.ok()) return status;
  return buffers;
}

absl::Status InputBuffers::Allocate(const EngineOptions& options) {
  const size_t rows = options.slab.rows;
  absl::Status status = Keep(CreateDeviceBuffer<uint32_t>(rows + 1, device_), row_begin_);
  status.Update(Keep(CreateDeviceBuffer<uint32_t>(rows / kGroupRows + 1, device_), group_begin_));
  status.Update(Keep(CreateDeviceBuffer<uint16_t>(rows, device_), lengths_));
  status.Update(Keep(CreateDeviceBuffer<float>(rows, device_), row_max_));
  if (with_contexts_) {
    status.Update(Keep(CreateDeviceBuffer<int64_t>(options.slab.context_sums, device_), context_sums_));
    status.Update(Keep(CreateDeviceBuffer<uint16_t>(rows, device_), context_line_));
  }
  const size_t slot_bytes = RoundUp(std::min(options.lane_bytes / kSlots, WidestSlot(options.slab)));
  for (uint32_t i = 0; i < kSlots; ++i) {
    status.Update(Keep(CreateDeviceBuffer<std::byte>(slot_bytes, device_), slots_[i]));
  }
  for (Event& copied : copied_) status.Update(Keep(CreateTimedEvent(device_), copied));
  status.Update(Keep(CreateTimedEvent(device_), started_));
  status.Update(Keep(CreateStream(device_), stream_));
  return status;
}

// Room is left for what alignment adds: before the first entry, and behind the indices and the values.
uint32_t InputBuffers::SlotEntries(const BatchView& batch) const {
  const size_t room = slots_[0].size() - 2 * kAlignment;
  return static_cast<uint32_t>(
      std::min<size_t>(room / EntryBytes(batch) - kEntryAlignment, EngineLimits::kMaxSlabSize));
}

ChunkLimits InputBuffers::Limits(const BatchView& batch) const {
  ChunkLimits limits;
  limits.entries = SlotEntries(batch);
  limits.rows = EngineLimits::kMaxSlabSize;
  limits.last_entries = static_cast<uint32_t>(kLastChunkBytes / EntryBytes(batch));
  return limits;
}

// The entries go first: they are what the bus is busy with for long, and the host needs microseconds for each copy that
// it enqueues before them.
absl::Status InputBuffers::CopyChunk(const LaneWork& work, const Chunk& chunk, uint32_t number, cudaEvent_t slot_free) {
  if (number == 0) {
    bytes_ = 0;
    WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventRecord(started_.get(), stream_.get()), device_);
  }
  if (!Holds(*work.batch, chunk)) bytes_ += chunk.entries * EntryBytes(*work.batch);
  if (chunk.entries > 0 && Holds(*work.batch, chunk)) {
    if (slot_free != nullptr) WIDELANE_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(stream_.get(), slot_free, 0), device_);
    if (absl::Status status = CopyEntries(*work.batch, chunk, number); !status.ok()) return status;
  }
  if (number == 0) {
    absl::Status status = CopyRows(*work.batch, work.first_row, work.rows);
    if (CopiesContexts(*work.batch)) status.Update(CopyContexts(work));
    if (!status.ok()) return status;
  }
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventRecord(Copied(number), stream_.get()), device_);
  return absl::OkStatus();
}

absl::Status InputBuffers::CopyRows(const BatchView& batch, uint32_t first_row, uint32_t rows) {
  absl::Status status;
  if (batch.row_max != nullptr) {
    status.Update(CopyIn("row_max", batch.row_max + first_row, rows, row_max_.data() + first_row));
  }
  if (UniformLength(batch) == 0) status.Update(CopyLengths(batch, first_row, rows));
  return status;
}

absl::Status InputBuffers::CopyLengths(const BatchView& batch, uint32_t first_row, uint32_t rows) {
  const BatchView from = FromRow(batch, first_row, 0);
  if (from.lengths8 == nullptr && from.lengths16 == nullptr) {
    return CopyIn("row_begin", from.row_begin, size_t{rows} + 1, row_begin_.data() + first_row);
  }
  const uint32_t groups = (rows - 1) / kGroupRows + 1;
  absl::Status status = CopyIn("group_begin", from.group_begin, groups, group_begin_.data() + first_row / kGroupRows);
  if (from.lengths8 != nullptr) {
    status.Update(CopyIn("lengths8", from.lengths8, rows, reinterpret_cast<uint8_t*>(lengths_.data()) + first_row));
  } else {
    status.Update(CopyIn("lengths16", from.lengths16, rows, lengths_.data() + first_row));
  }
  return status;
}

// All lines: which of them a piece's rows have is nowhere written, and they are few.
absl::Status InputBuffers::CopyContexts(const LaneWork& work) {
  const BatchView& batch = *work.batch;
  const size_t sums = size_t{batch.context_lines} * work.model->outputs();
  absl::Status status = CopyIn("context_sums", batch.context_sums, sums, context_sums_.data());
  status.Update(
      CopyIn("context_line", batch.context_line + work.first_row, work.rows, context_line_.data() + work.first_row));
  return status;
}

std::byte* InputBuffers::ValuesOf(const BatchView& batch, uint32_t number) const {
  return slots_[number % kSlots].data() + RoundUp((SlotEntries(batch) + kEntryAlignment) * IndexBytes(batch));
}

absl::Status InputBuffers::CopyEntries(const BatchView& batch, const Chunk& chunk, uint32_t number) {
  std::byte* indices = slots_[number % kSlots].data();
  std::byte* values = ValuesOf(batch, number);
  absl::Status status = batch.indices16 != nullptr
                            ? CopyIn("indices16", batch.indices16 + chunk.first_entry, chunk.entries, indices)
                            : CopyIn("indices32", batch.indices32 + chunk.first_entry, chunk.entries, indices);
  if (batch.values16 != nullptr) {
    status.Update(CopyIn("values16", batch.values16 + chunk.first_entry, chunk.entries, values));
  } else if (batch.values32 != nullptr) {
    status.Update(CopyIn("values32", batch.values32 + chunk.first_entry, chunk.entries, values));
  }
  return status;
}

BatchView InputBuffers::View(const BatchView& batch, const Chunk& chunk, uint32_t number) const {
  BatchView view = batch;
  if (batch.row_max != nullptr) view.row_max = row_max_.data();
  if (CopiesContexts(batch)) {
    view.context_sums = context_sums_.data();
    view.context_line = context_line_.data();
  }
  if (batch.lengths8 != nullptr || batch.lengths16 != nullptr) {
    view.group_begin = group_begin_.data();
    if (batch.lengths16 != nullptr) view.lengths16 = lengths_.data();
    if (batch.lengths8 != nullptr) view.lengths8 = reinterpret_cast<const uint8_t*>(lengths_.data());
  } else {
    view.row_begin = row_begin_.data();
  }
  if (!Holds(batch, chunk)) return view;
  const std::byte* indices = slots_[number % kSlots].data();
  const std::byte* values = ValuesOf(batch, number);
  if (batch.indices16 != nullptr) view.indices16 = reinterpret_cast<const uint16_t*>(indices);
  if (batch.indices32 != nullptr) view.indices32 = reinterpret_cast<const uint32_t*>(indices);
  if (batch.values16 != nullptr) view.values16 = reinterpret_cast<const uint16_t*>(values);
  if (batch.values32 != nullptr) view.values32 = reinterpret_cast<const float*>(values);
  return view;
}

absl::StatusOr<std::chrono::nanoseconds> InputBuffers::TransferTime(uint32_t last) const {
  return TimeBetween(started_.get(), Copied(last), device_);
}

template <typename T>
absl::Status InputBuffers::CopyIn(const char* array, const T* from, size_t count, void* to) {
  if (check_pinned_) DieUnlessPinned(from, array);
  bytes_ += count * sizeof(T);
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(to, from, count * sizeof(T), cudaMemcpyHostToDevice, stream_.get()),
                                device_);
  return absl::OkStatus();
}

absl::StatusOr<std::chrono::nanoseconds> TimeBetween(cudaEvent_t from, cudaEvent_t to, int device) {
  float milliseconds = 0;
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventElapsedTime(&milliseconds, from, to), device);
  const std::chrono::duration<float, std::milli> time(milliseconds);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time);
}

}  // namespace widelane::cuda
