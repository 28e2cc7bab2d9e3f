#include "src/encode.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"

namespace widelane::client {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays go to the wire as they lie in memory");

// `get(i)` for i below `count`, as elements of T.
template <typename T, typename Get>
void Fill(v1::Array& array, v1::ElementType type, size_t count, Get get) {
  array.set_type(type);
  std::string& data = *array.mutable_data();
  data.resize(count * sizeof(T));
  for (size_t i = 0; i < count; ++i) {
    const T element = get(i);
    std::memcpy(data.data() + i * sizeof(T), &element, sizeof(T));
  }
}

template <typename T, typename S>
void FillAs(v1::Array& array, v1::ElementType type, S source) {
  Fill<T>(array, type, source.size(), [source](size_t i) { return static_cast<T>(source[i]); });
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
  const auto length = [indptr](size_t r) { return static_cast<uint64_t>(indptr[r + 1] - indptr[r]); };
  uint64_t longest = 0;
  for (size_t r = 0; r < rows; ++r) longest = std::max(longest, length(r));
  if (longest <= std::numeric_limits<uint16_t>::max()) {
    Fill<uint16_t>(out, v1::U16, rows, length);
  } else {
    Fill<uint32_t>(out, v1::U32, rows, length);
  }
}

template <typename S>
void EncodeIndices(S indices, v1::Array& out) {
  // Negative ones become huge.
  uint64_t largest = 0;
  for (const auto index : indices) largest = std::max(largest, static_cast<uint64_t>(static_cast<int64_t>(index)));
  if (largest <= std::numeric_limits<uint16_t>::max()) {
    FillAs<uint16_t>(out, v1::U16, indices);
  } else if (largest <= std::numeric_limits<uint32_t>::max()) {
    FillAs<uint32_t>(out, v1::U32, indices);
  } else {
    FillAs<int64_t>(out, v1::I64, indices);
  }
}

template <typename S>
void EncodeValues(S values, v1::Rows& out) {
  using T = typename S::value_type;
  if (std::all_of(values.begin(), values.end(), [](T value) { return value == 1; })) return;
  // What the rounding to float32 would turn into an infinity must reach the server as it is.
  const bool fits = std::is_same_v<T, float> || std::all_of(values.begin(), values.end(), [](T value) {
                      return !std::isfinite(value) || std::isfinite(static_cast<float>(value));
                    });
  if (fits) {
    FillAs<float>(*out.mutable_values(), v1::F32, values);
  } else {
    FillAs<double>(*out.mutable_values(), v1::F64, values);
  }
}

size_t CountOf(const decltype(RowsView::values)& values, size_t when_absent) {
  if (const auto* floats = std::get_if<std::span<const float>>(&values)) return floats->size();
  if (const auto* doubles = std::get_if<std::span<const double>>(&values)) return doubles->size();
  return when_absent;
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

}  // namespace widelane::client
