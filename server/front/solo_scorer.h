// Scores a small request on the thread that received it, with nothing shared: no batcher, no lock, no slab of the pool.
// README.md says when.

#ifndef WIDELANE_SERVER_FRONT_SOLO_SCORER_H_
#define WIDELANE_SERVER_FRONT_SOLO_SCORER_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/batching/batcher.h"
#include "server/batching/clock.h"
#include "server/batching/score_task.h"
#include "widelane/engine/engine.h"
#include "widelane/engine/slab.h"

namespace widelane {

// What is to be scored; see ScoreTask::Work.
struct SoloWork {
  const CsrView& csr;
  CsrShape shape;
  const ContextSums* contexts = nullptr;
  const std::shared_ptr<const LoadedModel>& model;
  BatchKind kind;
  uint8_t wants = 0;
  uint64_t callers = 1;  // requests in the server
  uint64_t traced = 0;   // the request's number in a timeline; 0: none
};

struct SoloResult {
  absl::Status status;
  TaskTimes times;
  uint64_t ignored = 0;
  Clock::TimePoint pack_begin;
};

// One thread at a time. Goes before the engine.
class SoloScorer {
 public:
  // Called with the slab and where the rows are in it.
  using TakeRows = absl::FunctionRef<void(const Slab& slab, const Segment& segment)>;

  // Scores all rows, or does nothing and returns false: the request is large, or the calling thread is not where it
  // would be done first. The observer is told as of any batch, `tracer` of the work if that is traced.
  bool Score(Engine& engine, BatchObserver& observer, const Clock& clock, const SoloWork& work, TakeRows take,
             PieceObserver& tracer, SoloResult& result);

 private:
  std::unique_ptr<Slab> slab_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_SOLO_SCORER_H_
