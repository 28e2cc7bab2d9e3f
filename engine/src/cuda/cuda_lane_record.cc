// When the stages of a piece's chunks ran, for who asks.

#include <algorithm>

#include "cuda/cuda_lane.h"

namespace widelane::cuda {

// Chunks beyond the timed ones are one span, from where the last of these ended.
absl::Status CudaLane::AddSpans(PieceRecord& record) {
  const uint32_t timed = std::min(pending_.chunks, kTimedChunks);
  for (uint32_t number = 0; number < timed; ++number) {
    if (absl::Status status = AddChunkSpans(number, record); !status.ok()) return status;
  }
  if (pending_.chunks <= timed) return absl::OkStatus();
  const uint32_t last = pending_.chunks - 1;
  const auto copied = host_clock_->At(inputs_->Copied(timed - 1));
  if (!copied.ok()) return copied.status();
  const auto computed = host_clock_->At(EventsOf(timed - 1).computed.get());
  if (!computed.ok()) return computed.status();
  absl::Status status = AddSpan(Stage::kTransferIn, timed, *copied, inputs_->Copied(last), record);
  status.Update(AddSpan(Stage::kCompute, timed, *computed, EventsOf(last).computed.get(), record));
  if (!pending_.copies_out) return status;
  const auto out = host_clock_->At(EventsOf(timed - 1).taken_out.get());
  if (!out.ok()) return out.status();
  status.Update(AddSpan(Stage::kTransferOut, timed, *out, EventsOf(last).taken_out.get(), record));
  return status;
}

absl::Status CudaLane::AddChunkSpans(uint32_t number, PieceRecord& record) {
  const ChunkEvents& events = EventsOf(number);
  const auto copy_began = CopyBegan(number);
  if (!copy_began.ok()) return copy_began.status();
  const auto begun = host_clock_->At(events.begun.get());
  if (!begun.ok()) return begun.status();
  absl::Status status = AddSpan(Stage::kTransferIn, number, *copy_began, inputs_->Copied(number), record);
  status.Update(AddSpan(Stage::kCompute, number, *begun, events.computed.get(), record));
  if (!pending_.copies_out) return status;
  auto out = host_clock_->At(events.computed.get());
  if (!out.ok()) return out.status();
  if (number > 0) {
    const auto before = host_clock_->At(EventsOf(number - 1).taken_out.get());
    if (!before.ok()) return before.status();
    out = std::max(*out, *before);
  }
  status.Update(AddSpan(Stage::kTransferOut, number, *out, events.taken_out.get(), record));
  return status;
}

// A chunk is copied when the one before has been and its slot is free, whichever is later.
absl::StatusOr<CudaLane::Clock::time_point> CudaLane::CopyBegan(uint32_t number) const {
  if (number == 0) return host_clock_->At(inputs_->Started());
  const auto copied = host_clock_->At(inputs_->Copied(number - 1));
  if (!copied.ok() || number < kSlots) return copied;
  const auto slot_free = host_clock_->At(EventsOf(number - kSlots).computed.get());
  if (!slot_free.ok()) return slot_free;
  return std::max(*copied, *slot_free);
}

// Spans of one stage do not overlap, but a renewed clock may be some microseconds off the one before.
absl::Status CudaLane::AddSpan(Stage stage, uint32_t chunk, Clock::time_point begin, cudaEvent_t end,
                               PieceRecord& record) {
  const auto ended = host_clock_->At(end);
  if (!ended.ok()) return ended.status();
  Clock::time_point& told_until = told_until_[static_cast<size_t>(stage)];
  begin = std::max(begin, told_until);
  told_until = std::max(begin, *ended);
  record.Add({stage, chunk, begin, told_until});
  return absl::OkStatus();
}

}  // namespace widelane::cuda
