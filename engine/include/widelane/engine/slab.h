// A slab: the host buffers of one batch in the engine's layout, made at start and reused, pinned where there are GPUs.
//
// Life: Engine::TakeSlab -> Open -> Claim / PackRows (many threads) -> Seal -> Engine::Submit -> read results -> drop
// the handle, which gives the slab back. Claim and Seal are called by one thread at a time (the batcher's lock);
// PackRows, Void and reading results touch only a segment's own part, so different segments may be worked on at once.

#ifndef WIDELANE_ENGINE_SLAB_H_
#define WIDELANE_ENGINE_SLAB_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "widelane/engine/batch_view.h"
#include "widelane/engine/context_sums.h"
#include "widelane/engine/csr.h"
#include "widelane/engine/model.h"
#include "widelane/engine/options.h"
#include "widelane/engine/piece_record.h"
#include "widelane/engine/route.h"
#include "widelane/engine/stages.h"

namespace widelane {

class LoadedModel;
class Lane;  // src/backend.h

// Host memory for slabs: plain, or pinned by a backend that copies from it.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  // Null when there is none. 64-byte aligned.
  virtual std::byte* Allocate(size_t bytes) = 0;
  virtual void Free(std::byte* data, size_t bytes) = 0;
};

// The part of a slab that one claim may write.
struct Segment {
  uint32_t first_row = 0;
  uint32_t rows = 0;
  uint32_t first_entry = 0;
  uint32_t entries = 0;
  uint32_t first_line = 0;  // of context_sums
  uint32_t lines = 0;       // 0: those at first_line are another segment's of the same request
};

// What a batch is to give, as a set.
enum : uint8_t { kWantScores = 1, kWantRaw = 2 };

class Slab {
 public:
  // `memory` outlives the slab. Errors: RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<Slab>> Create(const SlabOptions& options, HostMemory& memory);
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  // Starts an empty batch for `model`, which the slab keeps alive until it is opened again or given back. kind.best is
  // at most kMaxBest and the model's outputs.
  void Open(std::shared_ptr<const LoadedModel> model, const BatchKind& kind);

  // What still fits. Rows are bounded by their results as well: the model's outputs, or the best of them.
  CsrShape Room() const;
  // How many lines of context sums still fit.
  uint32_t RoomForLines() const;
  // Takes the next rows, entries and lines of context sums, or nothing if they do not fit. `wants` is of no matter to a
  // batch of best outputs.
  std::optional<Segment> Claim(uint64_t rows, uint64_t entries, uint8_t wants, uint32_t lines = 0);
  uint32_t rows() const { return rows_; }
  uint32_t entries() const { return entries_; }
  const BatchKind& kind() const { return kind_; }
  const std::shared_ptr<const LoadedModel>& model() const { return model_; }

  // Makes all rows of a claimed segment harmless: they score something nobody reads.
  void Void(const Segment& segment);
  // Ends the batch; all claimed segments are written.
  void Seal();
  // Lets go of the model; the engine does this when the slab comes back.
  void Close() { model_.reset(); }
  // Only after Seal.
  const BatchView& view() const { return view_; }

  // Results of row `row` of the batch, [outputs]; valid after the batch is done, null where not wanted.
  const float* scores(uint32_t row) const;
  const double* raw(uint32_t row) const;
  // [kind().best]: outputs, largest raw sum first, and their scores. Null without.
  const uint32_t* best_outputs(uint32_t row) const;
  const float* best_scores(uint32_t row) const;

  // Overwrites all results with numbers no row has, so that those of an earlier run cannot pass for new ones. Only
  // after Seal.
  void SpoilResults();

  // Set by the engine when the batch is done.
  absl::Status status;
  StageTimes stages;
  // When a device, or the calling thread, began with the first piece, and when the results of the last were there.
  std::chrono::steady_clock::time_point begun;
  std::chrono::steady_clock::time_point ended;
  int device = -1;             // index into Engine::devices(); of the last to finish where there were several
  Route route = Route::kAuto;  // that was taken

  // Set between Open and Submit by who wants to know of the batch's pieces; null: nobody. `tag` is for the observer.
  PieceObserver* observer = nullptr;
  uint64_t tag = 0;

 private:
  friend class PackTarget;
  friend class Engine;  // solo_lane_
  Slab(const SlabOptions& options, HostMemory& memory);

  const SlabOptions options_;
  HostMemory& memory_;
  std::byte* block_ = nullptr;
  size_t block_bytes_ = 0;
  uint32_t* row_begin_ = nullptr;
  uint32_t* group_begin_ = nullptr;
  uint8_t* lengths8_ = nullptr;
  uint16_t* lengths16_ = nullptr;
  float* row_max_ = nullptr;
  int64_t* context_sums_ = nullptr;
  uint16_t* context_line_ = nullptr;
  std::byte* indices_ = nullptr;
  std::byte* values_ = nullptr;
  double* raw_ = nullptr;    // also the best outputs
  float* scores_ = nullptr;  // also the best outputs' scores

  std::shared_ptr<const LoadedModel> model_;
  BatchKind kind_;
  uint32_t max_rows_ = 0;
  uint32_t rows_ = 0;
  uint32_t entries_ = 0;
  uint32_t max_lines_ = 0;
  uint32_t lines_ = 0;
  uint8_t wants_ = 0;
  std::atomic<uint32_t> longest_row_{0};
  BatchView view_;
  std::unique_ptr<Lane> solo_lane_;  // of slabs that are scored on their owner's thread (Engine::MakeSlab)
};

// The narrowest kind that holds every value; kOnes without values. Reads each value at most twice.
Values NarrowestValues(const std::optional<TypedArray>& values);

// How many of the rows from `cursor` on fit into `room`, and their entries. Zero rows when the next one does not fit.
CsrShape RowsThatFit(RowCursor cursor, uint64_t rows_left, const CsrShape& room);

// Writes the next segment.rows rows of `csr` into the slab, in one pass that checks every index and value, and moves
// the cursor behind them. Returns how many entries were of unknown features (0 unless the model ignores them).
// `csr` has passed CheckShape, and its NarrowestValues are no wider than the slab's kind.
// In a slab of a kind with contexts every segment has `contexts`, computed for `csr`, and room for all its lines or
// none (see Segment). Errors: INVALID_ARGUMENT naming field, row and position; the segment is then voided.
absl::StatusOr<uint64_t> PackRows(const CsrView& csr, RowCursor& cursor, Slab& slab, const Segment& segment,
                                  const ContextSums* contexts = nullptr);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SLAB_H_
