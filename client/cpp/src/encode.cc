#include "src/encode.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"

namespace widelane::client {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays go to the wire as they lie in memory");

// Elements that are looked at, and made narrow, at once: few enough for the first level of the cache.
constexpr size_t kBlock = 2048;

// `convert(i, out)` for each i below `count` writes an element of T and returns 0, or anything else if it could not.
// Gives up, and leaves the array empty, in the block of the first that could not.
template <typename T, typename Convert>
bool TryFill(v1::Array& array, v1::ElementType type, size_t count, Convert convert) {
  std::string& data = *array.mutable_data();
  std::array<T, kBlock> block;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t size = std::min(kBlock, count - begin);
    // Numbers instead of bools and no branch, so that the loop is vectorised.
    decltype(convert(begin, block[0])) misfits = 0;
    for (size_t i = 0; i < size; ++i) misfits |= convert(begin + i, block[i]);
    if (misfits != 0) {
      data.clear();
      return false;
    }
    // Not before: arrays whose first block does not fit cost no memory.
    if (begin == 0) data.reserve(count * sizeof(T));
    data.append(reinterpret_cast<const char*>(block.data()), size * sizeof(T));
  }
  array.set_type(type);
  return true;
}

// Elements that T has all, or that lie so in memory already.
template <typename T, typename S>
void FillAs(v1::Array& array, v1::ElementType type, S source) {
  if constexpr (std::is_same_v<T, typename S::value_type>) {
    array.set_type(type);
    array.mutable_data()->assign(reinterpret_cast<const char*>(source.data()), source.size_bytes());
  } else {
    TryFill<T>(array, type, source.size(), [source](size_t i, T& out) {
      out = static_cast<T>(source[i]);
      return 0;
    });
  }
}

// As FillAs for unsigned T, if it holds every element.
template <typename T, typename S>
bool TryFillAs(v1::Array& array, v1::ElementType type, S source) {
  if constexpr (std::is_same_v<T, typename S::value_type>) {
    FillAs<T>(array, type, source);
    return true;
  } else {
    return TryFill<T>(array, type, source.size(), [source](size_t i, T& out) {
      using Wide = std::make_unsigned_t<typename S::value_type>;
      const auto wide = static_cast<Wide>(source[i]);
      out = static_cast<T>(wide);
      const Wide negative = std::is_signed_v<typename S::value_type> ? wide >> (8 * sizeof(Wide) - 1) : 0;
      return static_cast<Wide>((wide ^ out) | negative);
    });
  }
}

template <typename S>
absl::Status CheckOffsets(S indptr, size_t entries) {
  using T = typename S::value_type;
  if (indptr.empty()) {
    if (entries == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("indptr is empty and there are ", entries, " indices"));
  }
  if (indptr.front() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("indptr[0] is ", indptr.front(), "; the first offset is 0"));
  }
  const auto fall = std::adjacent_find(indptr.begin(), indptr.end(), [](T a, T b) { return b < a; });
  if (fall != indptr.end()) {
    return absl::InvalidArgumentError(absl::StrCat("indptr[", fall - indptr.begin() + 1, "] is ", fall[1],
                                                   ", below the ", fall[0], " before it; offsets never fall"));
  }
  if (static_cast<uint64_t>(indptr.back()) != entries) {
    return absl::InvalidArgumentError(
        absl::StrCat("indptr ends at ", indptr.back(), " and there are ", entries, " indices; the two must agree"));
  }
  return absl::OkStatus();
}

template <typename S>
void EncodeLengths(S indptr, v1::Array& out) {
  const size_t rows = indptr.empty() ? 0 : indptr.size() - 1;
  const auto as = [indptr](size_t r, auto& length) {
    const auto wide = static_cast<uint64_t>(indptr[r + 1] - indptr[r]);
    length = static_cast<std::remove_reference_t<decltype(length)>>(wide);
    return wide ^ length;
  };
  if (!TryFill<uint16_t>(out, v1::U16, rows, as)) TryFill<uint32_t>(out, v1::U32, rows, as);
}

template <typename S>
void EncodeIndices(S indices, v1::Array& out) {
  if (TryFillAs<uint16_t>(out, v1::U16, indices) || TryFillAs<uint32_t>(out, v1::U32, indices)) return;
  FillAs<int64_t>(out, v1::I64, indices);
}

template <typename S>
bool AllOnes(S values) {
  using Bits = std::conditional_t<sizeof(typename S::value_type) == sizeof(uint32_t), uint32_t, uint64_t>;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    Bits others = 0;
    for (const auto value : values.subspan(begin, std::min(kBlock, values.size() - begin))) {
      others |= std::bit_cast<Bits>(value) ^ std::bit_cast<Bits>(typename S::value_type{1});
    }
    if (others != 0) return false;
  }
  return true;
}

// 0 if float16 has `value`, whose bits are then in `out`.
uint32_t ToFloat16(float value, uint16_t& out) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto magnitude = static_cast<int32_t>(bits & 0x7FFFFFFF);
  constexpr int32_t kLeastNormal = 0x38800000;                              // 2^-14
  constexpr int32_t kLargest = 0x477FE000;                                  // 65504
  const int32_t normal = -static_cast<int32_t>(magnitude >= kLeastNormal);  // all bits or none
  // Below the least normal number the steps are of 2^-24.
  const float small = std::bit_cast<float>(magnitude & ~normal) * 0x1p24F;
  const auto steps = static_cast<int32_t>(small);
  const int32_t half = (((magnitude - 0x38000000) >> 13) & normal) | steps;
  out = static_cast<uint16_t>((bits >> 16 & 0x8000) | static_cast<uint32_t>(half));
  const int32_t lost = (magnitude & normal & 0x1FFF) |
                       (std::bit_cast<int32_t>(static_cast<float>(steps)) ^ std::bit_cast<int32_t>(small)) |
                       static_cast<int32_t>(magnitude > kLargest);
  return static_cast<uint32_t>(lost);
}

uint32_t ToFloat16(double value, uint16_t& out) {
  const auto narrow = static_cast<float>(value);
  return ToFloat16(narrow, out) | static_cast<uint32_t>(static_cast<double>(narrow) != value);
}

template <typename S>
void EncodeValues(S values, v1::Rows& out) {
  using T = typename S::value_type;
  if (AllOnes(values)) return;
  v1::Array& array = *out.mutable_values();
  const auto to_half = [values](size_t i, uint16_t& half) { return ToFloat16(values[i], half); };
  if (TryFill<uint16_t>(array, v1::F16, values.size(), to_half)) return;
  if constexpr (std::is_same_v<T, float>) {
    FillAs<float>(array, v1::F32, values);
  } else {
    // What the rounding to float32 would turn into an infinity must reach the server as it is.
    const auto to_float = [values](size_t i, float& narrow) {
      narrow = static_cast<float>(values[i]);
      return static_cast<uint32_t>(std::isfinite(values[i]) && !std::isfinite(narrow));
    };
    if (!TryFill<float>(array, v1::F32, values.size(), to_float)) FillAs<double>(array, v1::F64, values);
  }
}

size_t CountOf(const decltype(RowsView::values)& values, size_t when_absent) {
  if (const auto* floats = std::get_if<std::span<const float>>(&values)) return floats->size();
  if (const auto* doubles = std::get_if<std::span<const double>>(&values)) return doubles->size();
  return when_absent;
}

size_t RowsIn(const RowsView& rows) {
  const size_t offsets = std::visit([](auto indptr) { return indptr.size(); }, rows.indptr);
  return offsets == 0 ? 0 : offsets - 1;
}

}  // namespace

absl::Status EncodeRows(const RowsView& rows, v1::Rows& out) {
  const size_t entries = std::visit([](auto indices) { return indices.size(); }, rows.indices);
  absl::Status status = std::visit([&](auto indptr) { return CheckOffsets(indptr, entries); }, rows.indptr);
  if (!status.ok()) return status;
  const size_t values = CountOf(rows.values, entries);
  if (values != entries) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", values, " values and ", entries, " indices; the two must agree"));
  }
  std::visit([&](auto indptr) { EncodeLengths(indptr, *out.mutable_row_lengths()); }, rows.indptr);
  std::visit([&](auto indices) { EncodeIndices(indices, *out.mutable_indices()); }, rows.indices);
  std::visit(
      [&](auto given) {
        if constexpr (!std::is_same_v<decltype(given), std::monostate>) EncodeValues(given, out);
      },
      rows.values);
  out.set_features(rows.features);
  return absl::OkStatus();
}

absl::Status EncodeContexts(const RowsView& rows, const RowsView& contexts, std::span<const uint32_t> context_of,
                            v1::ScoreRequest& out) {
  const size_t count = RowsIn(contexts);
  const bool given = count > 0 || std::visit([](auto indices) { return !indices.empty(); }, contexts.indices);
  if (!given && context_of.empty()) return absl::OkStatus();
  if (absl::Status status = EncodeRows(contexts, *out.mutable_contexts()); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("contexts: ", status.message()));
  }
  if (context_of.empty() && count == 1) return absl::OkStatus();
  if (context_of.size() != RowsIn(rows)) {
    return absl::InvalidArgumentError(absl::StrCat("context_of has ", context_of.size(), " elements and there are ",
                                                   RowsIn(rows), " rows; each row has one of the ", count,
                                                   " contexts"));
  }
  EncodeIndices(context_of, *out.mutable_context_of());
  return absl::OkStatus();
}

}  // namespace widelane::client
