// What became of the pieces of a batch, and when: for timelines. Nothing is noted of slabs that have no observer.

#ifndef WIDELANE_ENGINE_PIECE_RECORD_H_
#define WIDELANE_ENGINE_PIECE_RECORD_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "widelane/engine/route.h"
#include "widelane/engine/stages.h"

namespace widelane {

// When a device was at a stage with one chunk of a piece, by the host's clock.
struct StageSpan {
  using TimePoint = std::chrono::steady_clock::time_point;

  Stage stage = Stage::kCompute;
  uint32_t chunk = 0;
  TimePoint begin;
  TimePoint end;
};

// Rows of a batch on one device, or the whole batch.
struct PieceRecord {
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr size_t kMostSpans = 32;
  static constexpr int kThread = -1;

  uint64_t tag = 0;    // Slab::tag
  size_t device = 0;   // that scored it, index into Engine::devices()
  int lane = kThread;  // of a GPU; kThread: the thread that tells the observer has scored it
  Route route = Route::kInline;
  uint32_t rows = 0;
  uint64_t entries = 0;
  TimePoint submitted;  // to the device's queue, or begun where there is none
  TimePoint begun;      // a lane took it
  TimePoint launched;   // the last call that enqueues work has returned
  TimePoint done;       // the results are there
  // Stages of different chunks overlap; those of one name come one after the other.
  std::array<StageSpan, kMostSpans> spans;
  size_t span_count = 0;

  // What is beyond kMostSpans is left out.
  void Add(const StageSpan& span) {
    if (span_count < kMostSpans) spans[span_count++] = span;
  }
};

class PieceObserver {
 public:
  virtual ~PieceObserver() = default;
  // Before the batch's listener is told. Any thread, several at once; must not block.
  virtual void OnPiece(const PieceRecord& piece) = 0;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_PIECE_RECORD_H_
