#include "server/front/solo_scorer.h"

#include <algorithm>
#include <optional>

#include "server/observe/trace/records.h"

namespace widelane {

namespace {

// What is more is worth a batch of its own: the thread has others to receive.
constexpr uint32_t kMostRows = 1024;
constexpr uint32_t kMostEntries = uint32_t{1} << 16;
constexpr uint32_t kMostResults = uint32_t{1} << 14;
constexpr uint32_t kMostContextSums = uint32_t{1} << 13;

SlabOptions Sizes(const SlabOptions& most) {
  return {std::min(kMostRows, most.rows), std::min(kMostEntries, most.entries), std::min(kMostResults, most.results),
          std::min(kMostContextSums, most.context_sums)};
}

}  // namespace

bool SoloScorer::Score(Engine& engine, BatchObserver& observer, const Clock& clock, const SoloWork& work, TakeRows take,
                       PieceObserver& tracer, SoloResult& result) {
  const CsrShape& shape = work.shape;
  if (shape.rows == 0 || shape.rows > kMostRows || shape.entries > kMostEntries) return false;
  if (!engine.IsFirstHere(*work.model, work.kind, shape.rows, shape.entries, work.callers)) return false;
  if (slab_ == nullptr) slab_ = engine.MakeSlab(Sizes(engine.options().slab));
  if (slab_ == nullptr) return false;

  slab_->Open(work.model, work.kind);
  if (work.traced != 0) {
    slab_->observer = &tracer;
    slab_->tag = AloneTag(work.traced);
  }
  const uint32_t lines = work.contexts == nullptr ? 0 : work.contexts->lines();
  const std::optional<Segment> segment = slab_->Claim(shape.rows, shape.entries, work.wants, lines);
  if (!segment.has_value()) {
    slab_->Close();
    return false;
  }
  const Clock::TimePoint begin = clock.Now();
  RowCursor cursor(work.csr);
  const absl::StatusOr<uint64_t> ignored = PackRows(work.csr, cursor, *slab_, *segment, work.contexts);
  const Clock::TimePoint packed = clock.Now();
  result.times = {};
  result.pack_begin = begin;
  result.times.pack = packed - begin;
  if (!ignored.ok()) {
    result.status = ignored.status();
    slab_->Close();
    return true;
  }
  slab_->Seal();
  const bool scored = engine.ScoreHere(*slab_, work.callers);
  if (scored) {
    result.ignored = *ignored;
    result.status = slab_->status;
    result.times.Add(*slab_, BatchShares(*slab_));
    observer.OnBatchClosed(CloseReason::kAlone);
    observer.OnBatch(*slab_);
    if (result.status.ok()) take(*slab_, *segment);
  }
  slab_->Close();
  return scored;
}

}  // namespace widelane
