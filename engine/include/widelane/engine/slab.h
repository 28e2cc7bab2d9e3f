// A slab: the host buffers of one batch in the engine's layout, made at start and reused, pinned where there are GPUs.
//
// Life: Engine::TakeSlab -> Open -> Claim / PackRows (many threads) -> Seal -> Engine::Submit -> read results -> drop
// the handle, which gives the slab back. Claim and Seal are called by one thread at a time (the batcher's lock);
// PackRows, Void and reading results touch only a segment's own part, so different segments may be worked on at once.

#ifndef WIDELANE_ENGINE_SLAB_H_
#define WIDELANE_ENGINE_SLAB_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "widelane/engine/batch_view.h"
#include "widelane/engine/csr.h"
#include "widelane/engine/model.h"
#include "widelane/engine/options.h"
#include "widelane/engine/stages.h"

namespace widelane {

class LoadedModel;

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

  // Starts an empty batch for `model`, which the slab keeps alive until it is opened again or given back.
  // `has_values`: whether rows bring values; without, every value is 1.
  void Open(std::shared_ptr<const LoadedModel> model, bool has_values);

  // What still fits. Rows are bounded by the model's outputs as well.
  CsrShape Room() const;
  // Takes the next rows and entries, or nothing if they do not fit.
  std::optional<Segment> Claim(uint64_t rows, uint64_t entries, uint8_t wants);
  uint32_t rows() const { return rows_; }
  uint32_t entries() const { return entries_; }
  bool has_values() const { return has_values_; }
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

  // Set by the engine when the batch is done.
  absl::Status status;
  StageTimes stages;
  int device = -1;  // index into Engine::devices()

 private:
  friend class PackTarget;
  Slab(const SlabOptions& options, HostMemory& memory) : options_(options), memory_(memory) {}

  const SlabOptions options_;
  HostMemory& memory_;
  std::byte* block_ = nullptr;
  size_t block_bytes_ = 0;
  uint32_t* row_begin_ = nullptr;
  float* row_max_ = nullptr;
  std::byte* indices_ = nullptr;
  float* values_ = nullptr;
  float* scores_ = nullptr;
  double* raw_ = nullptr;

  std::shared_ptr<const LoadedModel> model_;
  uint32_t max_rows_ = 0;
  uint32_t rows_ = 0;
  uint32_t entries_ = 0;
  uint8_t wants_ = 0;
  bool has_values_ = false;
  BatchView view_;
};

// Whether every value is exactly 1, so that values need not be kept. Stops at the first that is not.
bool AllOnes(const TypedArray& values);

// How many of the rows from `cursor` on fit into `room`, and their entries. Zero rows when the next one does not fit.
CsrShape RowsThatFit(RowCursor cursor, uint64_t rows_left, const CsrShape& room);

// Writes the next segment.rows rows of `csr` into the slab, in one pass that checks every index and value, and moves
// the cursor behind them. Returns how many entries were of unknown features (0 unless the model ignores them).
// `csr` has passed CheckShape; a slab opened without values takes a view whose values are absent or AllOnes.
// Errors: INVALID_ARGUMENT naming field, row and position; the segment is then voided.
absl::StatusOr<uint64_t> PackRows(const CsrView& csr, RowCursor& cursor, Slab& slab, const Segment& segment);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SLAB_H_
