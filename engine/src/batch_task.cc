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

void NotePiece(const Piece& piece, size_t device, const absl::Status& status, const StageTimes& stages) {
  Slab& slab = *piece.task->slab;
  const std::lock_guard<std::mutex> lock(piece.task->mutex);
  slab.status.Update(status);
  for (size_t s = 0; s < kStages; ++s) slab.stages.time[s] = std::max(slab.stages.time[s], stages.time[s]);
  slab.device = static_cast<int>(device);
}

}  // namespace widelane
