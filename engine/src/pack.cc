#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "copy_elements.h"
#include "elements.h"
#include "pack_target.h"
#include "widelane/engine/errors.h"
#include "widelane/engine/slab.h"

namespace widelane {

namespace {

// Rows are copied together until they have this many entries: long loops, and still in the first cache when the values
// or the rows are looked at once more.
constexpr uint64_t kBlockEntries = 4096;

absl::Status IndexError(const CsrView& csr, uint64_t entry, uint64_t row, uint64_t position, const Model& model) {
  return FieldError(
      absl::StrCat("indices[", entry, "]"),
      absl::StrCat("row ", row, ", position ", position, ": feature ",
                   static_cast<int64_t>(IntegerAt(csr.indices, entry)), " is outside the model's ", model.features(),
                   " features (0 to ", static_cast<int64_t>(model.features()) - 1, ")"));
}

absl::Status ValueError(uint64_t entry, uint64_t row, uint64_t position, double value) {
  const char* problem = std::isnan(value)   ? "is not a number"
                        : std::isinf(value) ? "is infinite"
                                            : "is beyond the range of float32";
  return FieldError(absl::StrCat("values[", entry, "]"),
                    absl::StrCat("row ", row, ", position ", position, ": ", value, " ", problem));
}

double ValueAt(const TypedArray& in, uint64_t i) {
  switch (in.type) {
    case ElementType::kF16:
      return ToDouble(LoadAt<Half>(in.data, i));
    case ElementType::kF32:
      return LoadAt<float>(in.data, i);
    default:
      return LoadAt<double>(in.data, i);
  }
}

bool IsFiniteFloat(double value) { return std::isfinite(static_cast<float>(value)); }

float FloatOf(float value) { return value; }
float FloatOf(uint16_t half) { return numeric::FromFloat16(half); }

// Packs the rows of one segment, for one width of the packed indices.
template <typename Index>
class Packer {
 public:
  Packer(const CsrView& csr, PackTarget& target, Index* indices) : csr_(csr), target_(target), indices_(indices) {}

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
    while (first_row + block.rows < target_.segment.rows && block.entries < kBlockEntries) {
      const uint64_t length = cursor.length();
      target_.WriteRow(first_row + block.rows, static_cast<uint32_t>(packed_ + block.entries),
                       static_cast<uint32_t>(length));
      block.entries += length;
      ++block.rows;
      cursor.Next();
    }
    return block;
  }

  absl::Status Copy(const Block& block) {
    Index* const indices = indices_ + packed_;
    const uint64_t unknown =
        CopyIndices(csr_.indices, block.start.begin(), block.entries, target_.model.features(), indices);
    if (unknown != 0) {
      if (absl::Status status = FirstRefused(block); !status.ok()) return status;
      ignored_ += unknown;
    }
    if (target_.values16 != nullptr) return CopyBlockValues(block, unknown != 0, target_.values16 + packed_);
    if (target_.values32 != nullptr) return CopyBlockValues(block, unknown != 0, target_.values32 + packed_);
    return absl::OkStatus();
  }

  template <typename Value>
  absl::Status CopyBlockValues(const Block& block, bool has_unknown, Value* values) {
    if (!csr_.values.has_value()) {
      constexpr auto kOne = sizeof(Value) == sizeof(uint16_t) ? static_cast<Value>(0x3C00) : static_cast<Value>(1);
      std::fill_n(values, block.entries, kOne);
    } else if (!CopyValues(*csr_.values, block.start.begin(), block.entries, values)) {
      absl::Status status = FirstRefused(block);
      return status.ok() ? absl::InternalError("values: wider than the batch's kind") : status;
    }
    if (has_unknown) ClearUnknown(indices_ + packed_, values, block.entries);
    RowCursor cursor = block.start;
    const Value* at = values;
    for (uint32_t r = 0; r < block.rows; ++r, cursor.Next()) {
      float max = 0;
      for (uint64_t i = 0; i < cursor.length(); ++i) max = std::max(max, std::fabs(FloatOf(at[i])));
      target_.row_max[block.first_row + r] = max;
      at += cursor.length();
    }
    return absl::OkStatus();
  }

  // What an ignored entry brought must not move the row's grid.
  template <typename Value>
  void ClearUnknown(const Index* indices, Value* values, uint64_t count) {
    const Index zero_feature = static_cast<Index>(target_.model.zero_feature());
    for (uint64_t i = 0; i < count; ++i) values[i] = indices[i] == zero_feature ? Value{0} : values[i];
  }

  // The first entry of a block that is to be refused, row by row, indices before values; OK when there is none.
  absl::Status FirstRefused(const Block& block) const {
    RowCursor cursor = block.start;
    for (uint32_t r = 0; r < block.rows; ++r, cursor.Next()) {
      for (uint64_t i = 0; i < cursor.length(); ++i) {
        if (Refuses(IntegerAt(csr_.indices, cursor.begin() + i))) {
          return IndexError(csr_, cursor.begin() + i, cursor.row(), i, target_.model);
        }
      }
      if (target_.row_max == nullptr || !csr_.values.has_value()) continue;
      for (uint64_t i = 0; i < cursor.length(); ++i) {
        const double value = ValueAt(*csr_.values, cursor.begin() + i);
        if (!IsFiniteFloat(value)) return ValueError(cursor.begin() + i, cursor.row(), i, value);
      }
    }
    return absl::OkStatus();
  }

  // No model of any size has a negative feature; it is a caller's slip, not a feature that is new.
  bool Refuses(uint64_t feature) const {
    if (feature < target_.model.features()) return false;
    return target_.model.unknown_features() == UnknownFeatures::kRefuse || static_cast<int64_t>(feature) < 0;
  }

  const CsrView& csr_;
  PackTarget& target_;
  Index* const indices_;
  uint64_t packed_ = 0;
  uint64_t ignored_ = 0;
};

template <typename In>
Values NarrowestOf(const TypedArray& values) {
  size_t i = 0;
  while (i < values.count && ToDouble(LoadAt<In>(values.data, i)) == 1.0) ++i;
  if (i == values.count) return Values::kOnes;
  if (values.type == ElementType::kF16) return Values::kFloat16;
  // In blocks, so that the first value that does not fit ends it and the loops stay simple.
  uint16_t halves[256];
  while (i < values.count) {
    const size_t count = std::min<size_t>(values.count - i, std::size(halves));
    if (!CopyValues(values, i, count, halves)) return Values::kFloat32;
    i += count;
  }
  return Values::kFloat16;
}

}  // namespace

Values NarrowestValues(const std::optional<TypedArray>& values) {
  if (!values.has_value()) return Values::kOnes;
  switch (values->type) {
    case ElementType::kF16:
      return NarrowestOf<Half>(*values);
    case ElementType::kF32:
      return NarrowestOf<float>(*values);
    default:
      return NarrowestOf<double>(*values);
  }
}

CsrShape RowsThatFit(RowCursor cursor, uint64_t rows_left, const CsrShape& room) {
  CsrShape fit;
  const uint64_t rows = std::min(rows_left, room.rows);
  while (fit.rows < rows) {
    const uint64_t length = cursor.length();
    if (length > room.entries - fit.entries) break;
    fit.entries += length;
    ++fit.rows;
    cursor.Next();
  }
  return fit;
}

absl::StatusOr<uint64_t> PackRows(const CsrView& csr, RowCursor& cursor, Slab& slab, const Segment& segment) {
  PackTarget target(slab, segment);
  if (csr.features.has_value() && *csr.features != target.model.features()) {
    slab.Void(segment);
    return FieldError("features", absl::StrCat("is ", *csr.features, ", the model has ", target.model.features()));
  }
  absl::StatusOr<uint64_t> ignored = target.indices16 != nullptr
                                         ? Packer<uint16_t>(csr, target, target.indices16).Rows(cursor)
                                         : Packer<uint32_t>(csr, target, target.indices32).Rows(cursor);
  if (!ignored.ok()) slab.Void(segment);
  return ignored;
}

}  // namespace widelane
