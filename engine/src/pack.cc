#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "elements.h"
#include "pack_target.h"
#include "widelane/engine/errors.h"
#include "widelane/engine/slab.h"

namespace widelane {

namespace {

// Doubles from here on round to a float beyond the largest: half a unit above it.
constexpr double kBeyondFloat = 0x1.ffffffp127;

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

// Copies one row's indices, out-of-model ones to the zero feature, and counts those. Branch-free, so that it can be
// vectorised.
template <typename In, typename Out>
uint64_t CopyIndices(const std::byte* data, uint64_t begin, uint64_t count, uint64_t features, Out* out) {
  uint64_t unknown = 0;
  const Out zero_feature = static_cast<Out>(features);
  for (uint64_t i = 0; i < count; ++i) {
    // Negative indices become huge.
    const uint64_t index = static_cast<uint64_t>(static_cast<int64_t>(LoadAt<In>(data, begin + i)));
    const bool known = index < features;
    unknown += static_cast<uint64_t>(!known);
    out[i] = known ? static_cast<Out>(index) : zero_feature;
  }
  return unknown;
}

// Copies one row's values; returns whether all are finite floats.
template <typename In>
bool CopyValues(const std::byte* data, uint64_t begin, uint64_t count, float* out) {
  int bad = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const double value = ToDouble(LoadAt<In>(data, begin + i));
    bad |= static_cast<int>(!(std::fabs(value) < kBeyondFloat));
    out[i] = static_cast<float>(value);
  }
  return bad == 0;
}

template <typename Out>
uint64_t CopyIndices(const TypedArray& in, uint64_t begin, uint64_t count, uint64_t features, Out* out) {
  switch (in.type) {
    case ElementType::kU16:
      return CopyIndices<uint16_t>(in.data, begin, count, features, out);
    case ElementType::kU32:
      return CopyIndices<uint32_t>(in.data, begin, count, features, out);
    case ElementType::kI32:
      return CopyIndices<int32_t>(in.data, begin, count, features, out);
    default:
      return CopyIndices<int64_t>(in.data, begin, count, features, out);
  }
}

bool CopyValues(const TypedArray& in, uint64_t begin, uint64_t count, float* out) {
  switch (in.type) {
    case ElementType::kF16:
      return CopyValues<Half>(in.data, begin, count, out);
    case ElementType::kF32:
      return CopyValues<float>(in.data, begin, count, out);
    default:
      return CopyValues<double>(in.data, begin, count, out);
  }
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

template <typename In>
bool AllOnesAs(const TypedArray& values) {
  for (size_t i = 0; i < values.count; ++i) {
    if (ToDouble(LoadAt<In>(values.data, i)) != 1.0) return false;
  }
  return true;
}

// Packs the rows of one segment, for one width of the packed indices.
template <typename Out>
class Packer {
 public:
  Packer(const CsrView& csr, const PackTarget& target, Out* indices) : csr_(csr), target_(target), indices_(indices) {}

  absl::StatusOr<uint64_t> Rows(RowCursor& cursor, const Segment& segment) {
    for (uint32_t r = 0; r < segment.rows; ++r, cursor.Next()) {
      target_.row_begin[r] = segment.first_entry + static_cast<uint32_t>(packed_);
      if (absl::Status status = Row(r, cursor); !status.ok()) return status;
      packed_ += cursor.length();
    }
    return ignored_;
  }

 private:
  absl::Status Row(uint32_t r, const RowCursor& cursor) {
    const uint64_t begin = cursor.begin();
    const uint64_t count = cursor.length();
    Out* const indices = indices_ + packed_;
    const uint64_t unknown = CopyIndices(csr_.indices, begin, count, target_.model.features(), indices);
    if (unknown != 0) {
      if (target_.model.unknown_features() == UnknownFeatures::kRefuse) return FirstUnknown(cursor, count);
      // No model of any size has a negative one; it is a caller's slip, not a feature that is new.
      if (absl::Status status = RefuseNegative(cursor, count); !status.ok()) return status;
    }
    ignored_ += unknown;
    if (target_.values == nullptr) return absl::OkStatus();

    float* const values = target_.values + packed_;
    if (!csr_.values.has_value()) {
      std::fill_n(values, count, 1.0F);
    } else if (!CopyValues(*csr_.values, begin, count, values)) {
      return FirstBadValue(cursor, count);
    }
    if (unknown != 0) ClearUnknown(indices, values, count);
    float max = 0;
    for (uint64_t i = 0; i < count; ++i) max = std::max(max, std::fabs(values[i]));
    target_.row_max[r] = max;
    return absl::OkStatus();
  }

  // What an ignored entry brought must not move the row's grid.
  void ClearUnknown(const Out* indices, float* values, uint64_t count) {
    const Out zero_feature = static_cast<Out>(target_.model.zero_feature());
    for (uint64_t i = 0; i < count; ++i) values[i] = indices[i] == zero_feature ? 0.0F : values[i];
  }

  absl::Status FirstUnknown(const RowCursor& cursor, uint64_t count) const {
    uint64_t i = 0;
    while (i + 1 < count && IntegerAt(csr_.indices, cursor.begin() + i) < target_.model.features()) ++i;
    return IndexError(csr_, cursor.begin() + i, cursor.row(), i, target_.model);
  }

  absl::Status RefuseNegative(const RowCursor& cursor, uint64_t count) const {
    for (uint64_t i = 0; i < count; ++i) {
      const auto index = static_cast<int64_t>(IntegerAt(csr_.indices, cursor.begin() + i));
      if (index < 0) return IndexError(csr_, cursor.begin() + i, cursor.row(), i, target_.model);
    }
    return absl::OkStatus();
  }

  absl::Status FirstBadValue(const RowCursor& cursor, uint64_t count) const {
    uint64_t i = 0;
    while (i + 1 < count && std::fabs(ValueAt(*csr_.values, cursor.begin() + i)) < kBeyondFloat) ++i;
    return ValueError(cursor.begin() + i, cursor.row(), i, ValueAt(*csr_.values, cursor.begin() + i));
  }

  const CsrView& csr_;
  const PackTarget& target_;
  Out* const indices_;
  uint64_t packed_ = 0;
  uint64_t ignored_ = 0;
};

}  // namespace

bool AllOnes(const TypedArray& values) {
  switch (values.type) {
    case ElementType::kF16:
      return AllOnesAs<Half>(values);
    case ElementType::kF32:
      return AllOnesAs<float>(values);
    default:
      return AllOnesAs<double>(values);
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
  const PackTarget target(slab, segment);
  if (csr.features.has_value() && *csr.features != target.model.features()) {
    slab.Void(segment);
    return FieldError("features", absl::StrCat("is ", *csr.features, ", the model has ", target.model.features()));
  }
  absl::StatusOr<uint64_t> ignored = target.indices16 != nullptr
                                         ? Packer<uint16_t>(csr, target, target.indices16).Rows(cursor, segment)
                                         : Packer<uint32_t>(csr, target, target.indices32).Rows(cursor, segment);
  if (!ignored.ok()) slab.Void(segment);
  return ignored;
}

}  // namespace widelane
