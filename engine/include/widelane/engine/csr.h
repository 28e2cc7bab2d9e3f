// Sparse rows as a caller holds them: CSR arrays of any supported element type, looked at and never owned.
//
// Everything here may be called from any thread. A view is valid as long as the caller's bytes are.

#ifndef WIDELANE_ENGINE_CSR_H_
#define WIDELANE_ENGINE_CSR_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

namespace widelane {

enum class ElementType : uint8_t { kU16, kU32, kI32, kI64, kF16, kF32, kF64 };

// Bytes one element of `type` takes.
size_t ElementSize(ElementType type);
// "u16", "f32" and so on, as messages name them.
const char* ElementName(ElementType type);

// `count` little-endian elements of one type. `data` needs no alignment.
struct TypedArray {
  ElementType type = ElementType::kU32;
  const std::byte* data = nullptr;
  size_t count = 0;

  // The arrays themselves, for callers that hold plain vectors.
  template <typename T>
  static TypedArray Of(ElementType type, const T* data, size_t count) {
    return {type, reinterpret_cast<const std::byte*>(data), count};
  }
};

// A batch of rows: row r holds entries indptr[r] to indptr[r + 1] of `indices` and `values`.
struct CsrView {
  // Rows + 1 offsets (u32, i32 or i64), the first 0, never falling, the last equal to indices.count.
  std::optional<TypedArray> indptr;
  // Or the number of entries of each row (u16 or u32). Exactly one of the two is set.
  std::optional<TypedArray> row_lengths;
  // Feature of each entry (u16, u32, i32 or i64), 0-based, in any order, repeats allowed (they add up).
  TypedArray indices;
  // Value of each entry (f16, f32 or f64, the last rounded to float32), or absent: all are 1.
  std::optional<TypedArray> values;
  // The number of features the caller believes the model has; checked when set.
  std::optional<uint64_t> features;
};

struct CsrLimits {
  uint64_t max_rows = 0;
  uint64_t max_entries = 0;
  uint64_t max_row_entries = 0;  // at most 2^24 - 1: the sums' proof rests on it
};

struct CsrShape {
  uint64_t rows = 0;
  uint64_t entries = 0;
};

// Entries of one row beyond which sums could leave 64 bits (see engine/README.md).
inline constexpr uint64_t kMaxRowEntries = (uint64_t{1} << 24) - 1;

// Checks all that can be told without reading indices and values: types, counts, offsets, limits. Reads each row
// offset once, allocates nothing. Errors: INVALID_ARGUMENT naming field, row and what was expected.
absl::StatusOr<CsrShape> CheckShape(const CsrView& csr, const CsrLimits& limits);

// Walks the rows of a checked view in order.
class RowCursor {
 public:
  // `csr` has passed CheckShape and outlives the cursor.
  explicit RowCursor(const CsrView& csr) : csr_(csr) {}
  // At row `row`, at most the number of rows, whose first entry is number `begin`.
  RowCursor(const CsrView& csr, uint64_t row, uint64_t begin) : csr_(csr), row_(row), begin_(begin) {}

  uint64_t row() const { return row_; }
  // First entry of the current row, counted in the whole view.
  uint64_t begin() const { return begin_; }
  // Entries of the current row; the cursor must not be past the last row.
  uint64_t length() const;
  void Next();

 private:
  const CsrView& csr_;
  uint64_t row_ = 0;
  uint64_t begin_ = 0;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_CSR_H_
