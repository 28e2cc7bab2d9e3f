// Sparse rows as a caller holds them: CSR arrays of any supported element type, looked at and never owned.
//
// Everything here may be called from any thread. A view is valid as long as the caller's bytes are.

#ifndef WIDELANE_ENGINE_CSR_H_
#define WIDELANE_ENGINE_CSR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"

namespace widelane {

enum class ElementType : uint8_t { kU16, kU32, kI32, kI64, kF16, kF32, kF64 };

// Bytes one element of `type` takes.
size_t ElementSize(ElementType type);
// "u16", "f32" and so on, as messages name them.
const char* ElementName(ElementType type);

// Some of the bytes of an array: those from byte `begin` on.
struct ArrayPiece {
  const std::byte* data = nullptr;
  uint64_t begin = 0;
};

// `count` little-endian elements of one type. They need no alignment.
struct TypedArray {
  ElementType type = ElementType::kU32;
  const std::byte* data = nullptr;
  size_t count = 0;
  // Where the bytes lie in several places, as networks deliver them: the pieces in order, from byte 0 to the last
  // without gaps, none empty; an element may lie across two. `data` is not looked at then. Empty: all is at `data`.
  std::span<const ArrayPiece> pieces = {};

  // The arrays themselves, for callers that hold plain vectors.
  template <typename T>
  static TypedArray Of(ElementType type, const T* data, size_t count) {
    return {type, reinterpret_cast<const std::byte*>(data), count};
  }
};

// Whole elements of an array that lie side by side: elements [first, first + count), the first of them at `data`.
struct ElementRun {
  const std::byte* data = nullptr;
  uint64_t first = 0;
  uint64_t count = 0;

  bool Has(uint64_t i) const { return i - first < count; }
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

// Features that rows share. The features of row r are its own and those of its context, row `of`[r] of `features`: its
// score is that of the row with all of them written out, bit for bit.
struct RowContexts {
  CsrView features;
  // Context of each row (u16 or u32), [rows]; absent: there is one context, and it is that of all rows.
  std::optional<TypedArray> of;
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

// The same for the contexts of `rows`, which have passed CheckShape: their own shape, that each row has a context that
// there is, and that no row is longer than `limits` allow together with its context. Errors name "contexts..." or
// "context_of[r]".
absl::StatusOr<CsrShape> CheckContexts(const RowContexts& contexts, const CsrView& rows, const CsrLimits& limits);

// Walks the rows of a checked view in order.
class RowCursor {
 public:
  // `csr` has passed CheckShape and outlives the cursor.
  explicit RowCursor(const CsrView& csr) : RowCursor(csr, 0, 0) {}
  // At row `row`, at most the number of rows, whose first entry is number `begin`.
  RowCursor(const CsrView& csr, uint64_t row, uint64_t begin);

  const CsrView& csr() const { return *csr_; }
  uint64_t row() const { return row_; }
  // First entry of the current row, counted in the whole view.
  uint64_t begin() const { return begin_; }
  // Entries of the current row; the cursor must not be past the last row.
  uint64_t length() const;
  void Next();

 private:
  // Offsets or lengths, and the one of them that tells of the current row.
  const TypedArray& numbers() const { return csr_->indptr.has_value() ? *csr_->indptr : *csr_->row_lengths; }
  uint64_t number() const { return row_ + (csr_->indptr.has_value() ? 1 : 0); }

  const CsrView* csr_;
  uint64_t row_;
  uint64_t begin_;
  ElementRun run_;  // where that number lies, as a rule
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_CSR_H_
