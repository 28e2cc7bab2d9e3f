// A submitted batch on its way over devices, in one piece or cut by rows.

#ifndef WIDELANE_ENGINE_SRC_BATCH_TASK_H_
#define WIDELANE_ENGINE_SRC_BATCH_TASK_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "backend.h"
#include "widelane/engine/engine.h"

namespace widelane {

struct BatchTask;

// Rows of a batch for one device.
struct Piece {
  BatchTask* task = nullptr;
  uint32_t first_row = 0;
  uint32_t rows = 0;
  bool mapped = false;                                // see LaneWork
  bool trial = false;                                 // of a model being loaded: a failing device is not stood in for
  double predicted_ns = 0;                            // what the device's backlog grows by until the piece is done
  std::chrono::steady_clock::time_point submitted{};  // of slabs with an observer
};

// Made at start, one for each slab.
struct BatchTask {
  SlabHandle slab{nullptr, ReturnSlab{nullptr}};
  BatchListener* listener = nullptr;
  std::vector<Piece> pieces;  // what was cut, kept for its capacity
  std::atomic<uint32_t> pieces_left{0};
  std::mutex mutex;  // guards what the slab has of how it went while pieces run
};

// What a lane needs to know of `piece` on engine device `device`.
LaneWork WorkOf(const Piece& piece, size_t device);

// Notes in `record` which piece it is, as one that the calling thread scores.
void StartRecord(const LaneWork& work, const Slab& slab, PieceRecord& record);

// Scores `work`, which is of `slab`, on the CPU and on this thread, and tells the slab's observer if it has one. Was
// submitted at `submitted`, or just now.
absl::Status ScoreAndTell(Lane& lane, const LaneWork& work, const Slab& slab, StageTimes& stages,
                          std::chrono::steady_clock::time_point submitted = {});

// How a piece went.
struct PieceResult {
  size_t device = 0;  // that scored it
  absl::Status status;
  StageTimes stages;
  std::chrono::steady_clock::time_point begun;  // its work, and
  std::chrono::steady_clock::time_point ended;
};

// Notes it in the task's slab.
void NotePiece(const Piece& piece, const PieceResult& result);

// Called when a queue has done a piece; the device's load does not count it any more.
struct PieceDone {
  void (*function)(void* context, const Piece& piece);
  void* context;

  void operator()(const Piece& piece) const { function(context, piece); }
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_BATCH_TASK_H_
