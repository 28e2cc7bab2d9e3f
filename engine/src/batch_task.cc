#include "batch_task.h"

#include <algorithm>

namespace widelane {

LaneWork WorkOf(const Piece& piece, size_t device) {
  const Slab& slab = *piece.task->slab;
  return {.model = &slab.model()->model(),
          .resident = slab.model()->resident(device),
          .batch = &slab.view(),
          .first_row = piece.first_row,
          .rows = piece.rows,
          .mapped = piece.mapped,
          .expected_ns = piece.predicted_ns};
}

absl::Status ScoreAndTell(Lane& lane, const LaneWork& work, const Slab& slab, StageTimes& stages,
                          std::chrono::steady_clock::time_point submitted) {
  if (slab.observer == nullptr) return lane.Score(work, stages);
  using Clock = std::chrono::steady_clock;
  PieceRecord record;
  StartRecord(work, slab, record);
  record.begun = Clock::now();
  record.launched = record.begun;
  record.submitted = submitted == Clock::time_point() ? record.begun : submitted;
  absl::Status status = lane.Score(work, stages);
  record.done = Clock::now();
  slab.observer->OnPiece(record);
  return status;
}

void StartRecord(const LaneWork& work, const Slab& slab, PieceRecord& record) {
  const uint32_t* const begin = work.batch->row_begin + work.first_row;
  record.tag = slab.tag;
  record.device = 0;
  record.lane = PieceRecord::kThread;
  record.route = slab.route;
  record.rows = work.rows;
  record.entries = begin[work.rows] - begin[0];
  record.span_count = 0;
}

void NotePiece(const Piece& piece, const PieceResult& result) {
  Slab& slab = *piece.task->slab;
  const std::lock_guard<std::mutex> lock(piece.task->mutex);
  const bool is_first = slab.device < 0;
  slab.status.Update(result.status);
  for (size_t s = 0; s < kStages; ++s) slab.stages.time[s] = std::max(slab.stages.time[s], result.stages.time[s]);
  slab.begun = is_first ? result.begun : std::min(slab.begun, result.begun);
  slab.ended = is_first ? result.ended : std::max(slab.ended, result.ended);
  slab.device = static_cast<int>(result.device);
}

}  // namespace widelane
