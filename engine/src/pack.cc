#include <algorithm>
#include <optional>

#include "copy_elements.h"
#include "elements.h"
#include "pack_errors.h"
#include "pack_target.h"
#include "widelane/engine/slab.h"

namespace widelane {

namespace {

// Rows are copied together until they have this many entries: long loops, and still in the first cache when the values
// or the rows are looked at once more.
constexpr uint64_t kBlockEntries = 4096;

// Packs the rows of one segment, for one width of the packed indices.
template <typename Index>
class Packer {
 public:
  Packer(const CsrView& csr, const ContextSums* contexts, PackTarget& target, Index* indices)
      : csr_(csr), contexts_(contexts), target_(target), indices_(indices) {
    if (contexts != nullptr && contexts->of().has_value()) context_of_.emplace(*contexts->of());
  }

  absl::StatusOr<uint64_t> Rows(RowCursor& cursor) {
    for (uint32_t row = 0; row < target_.segment.rows;) {
      const Block block = WriteRows(row, cursor);
      if (absl::Status status = Copy(block); !status.ok()) return status;
      row += block.rows;
      packed_ += block.entries;
    }
    target_.FinishRows();
    return ignored_;
  }

 private:
  // Some rows of the segment, which begin at `start` in the view and at packed_ in the segment.
  struct Block {
    RowCursor start;
    uint32_t first_row;
    uint32_t rows;
    uint64_t entries;
  };

  Block WriteRows(uint32_t first_row, RowCursor& cursor) {
    Block block{cursor, first_row, 0, 0};
    RowLengths lengths(cursor);
    while (first_row + block.rows < target_.segment.rows && block.entries < kBlockEntries) {
      const uint64_t length = lengths.Next();
      target_.WriteRow(first_row + block.rows, static_cast<uint32_t>(packed_ + block.entries),
                       static_cast<uint32_t>(length));
      block.entries += length;
      ++block.rows;
    }
    cursor = RowCursor(csr_, cursor.row() + block.rows, cursor.begin() + block.entries);
    return block;
  }

  absl::Status Copy(const Block& block) {
    Index* const indices = indices_ + packed_;
    const uint64_t unknown =
        CopyIndices(csr_.indices, block.start.begin(), block.entries, target_.model.features(), indices);
    if (unknown != 0) {
      if (absl::Status status = BlockRefused(block); !status.ok()) return status;
      ignored_ += unknown;
    }
    if (target_.values16 != nullptr) return CopyBlockValues(block, unknown != 0, target_.values16 + packed_);
    if (target_.values32 != nullptr) return CopyBlockValues(block, unknown != 0, target_.values32 + packed_);
    if (contexts_ != nullptr) WriteLines(block);
    return absl::OkStatus();
  }

  template <typename Value>
  absl::Status CopyBlockValues(const Block& block, bool has_unknown, Value* values) {
    if (!csr_.values.has_value()) {
      constexpr auto kOne = sizeof(Value) == sizeof(uint16_t) ? static_cast<Value>(0x3C00) : static_cast<Value>(1);
      std::fill_n(values, block.entries, kOne);
    } else if (!CopyValues(*csr_.values, block.start.begin(), block.entries, values)) {
      absl::Status status = BlockRefused(block);
      return status.ok() ? absl::InternalError("values: wider than the batch's kind") : status;
    }
    if (has_unknown) ClearUnknown(indices_ + packed_, values, block.entries);
    RowLengths lengths(block.start);
    const Value* at = values;
    for (uint32_t r = 0; r < block.rows; ++r) {
      const uint64_t length = lengths.Next();
      float max = LargestOf(at, length);
      WriteLine(block.first_row + r, block.start.row() + r, max);
      target_.row_max[block.first_row + r] = max;
      at += length;
    }
    return absl::OkStatus();
  }

  // What an ignored entry brought must not move the row's grid.
  template <typename Value>
  void ClearUnknown(const Index* indices, Value* values, uint64_t count) {
    const Index zero_feature = static_cast<Index>(target_.model.zero_feature());
    for (uint64_t i = 0; i < count; ++i) values[i] = indices[i] == zero_feature ? Value{0} : values[i];
  }

  absl::Status BlockRefused(const Block& block) const {
    return FirstRefused(csr_, block.start, block.rows, target_.model, target_.row_max != nullptr, RowsOf::kRequest);
  }

  // Notes the line of a row, and makes its largest value that of the row with its context. `max` is the row's own.
  void WriteLine(uint32_t r, uint64_t row, float& max) {
    if (contexts_ == nullptr) return;
    const ContextSums::Line line = contexts_->LineOf(context_of_.has_value() ? (*context_of_)[row] : 0, max);
    target_.context_line[r] = static_cast<uint16_t>(target_.segment.first_line + line.line);
    max = line.max;
  }

  void WriteLines(const Block& block) {
    float one = 1;
    for (uint32_t r = 0; r < block.rows; ++r) WriteLine(block.first_row + r, block.start.row() + r, one);
  }

  const CsrView& csr_;
  const ContextSums* const contexts_;  // null: there are none
  std::optional<IntegerReader> context_of_;
  PackTarget& target_;
  Index* const indices_;
  uint64_t packed_ = 0;
  uint64_t ignored_ = 0;
};

}  // namespace

Values NarrowestValues(const std::optional<TypedArray>& values) {
  return values.has_value() ? NarrowestOf(*values, 0, values->count) : Values::kOnes;
}

CsrShape RowsThatFit(RowCursor cursor, uint64_t rows_left, const CsrShape& room) {
  RowLengths lengths(cursor);
  CsrShape fit;
  const uint64_t rows = std::min(rows_left, room.rows);
  for (; fit.rows < rows; ++fit.rows) {
    const uint64_t length = lengths.Next();
    if (length > room.entries - fit.entries) break;
    fit.entries += length;
  }
  return fit;
}

absl::StatusOr<uint64_t> PackRows(const CsrView& csr, RowCursor& cursor, Slab& slab, const Segment& segment,
                                  const ContextSums* contexts) {
  PackTarget target(slab, segment);
  if (absl::Status status = CheckFeatures(csr, target.model, RowsOf::kRequest); !status.ok()) {
    slab.Void(segment);
    return status;
  }
  if (segment.lines > 0) std::copy(contexts->sums().begin(), contexts->sums().end(), target.context_sums);
  absl::StatusOr<uint64_t> ignored = target.indices16 != nullptr
                                         ? Packer<uint16_t>(csr, contexts, target, target.indices16).Rows(cursor)
                                         : Packer<uint32_t>(csr, contexts, target, target.indices32).Rows(cursor);
  if (!ignored.ok()) slab.Void(segment);
  return ignored;
}

}  // namespace widelane
