// Reading elements of a stated type from bytes without alignment.

#ifndef WIDELANE_ENGINE_SRC_ELEMENTS_H_
#define WIDELANE_ENGINE_SRC_ELEMENTS_H_

#include <bit>
#include <cstdint>
#include <cstring>

#include "numeric.h"
#include "widelane/engine/csr.h"

namespace widelane {

static_assert(std::endian::native == std::endian::little, "the wire and the model files are little-endian");

template <typename T>
T LoadAt(const std::byte* data, uint64_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

// The run that element i of an array in pieces lies in. Empty when its bytes lie in several.
ElementRun RunInPieces(const TypedArray& array, uint64_t i);
// Puts element i of an array in pieces together; `room` holds 8 bytes.
void GatherElement(const TypedArray& array, uint64_t i, std::byte* room);

inline ElementRun RunAt(const TypedArray& array, uint64_t i) {
  if (array.pieces.empty()) return {array.data, 0, array.count};
  return RunInPieces(array, i);
}

// Elements [begin, begin + count) of an array, in order: calls body(data, n) for n elements at `data`, side by side,
// until it says false. False then.
template <typename Body>
bool ForEachRun(const TypedArray& array, uint64_t begin, uint64_t count, const Body& body) {
  const size_t size = ElementSize(array.type);
  if (array.pieces.empty()) return count == 0 || body(array.data + begin * size, count);
  const uint64_t end = begin + count;
  for (uint64_t i = begin; i < end;) {
    std::byte room[8];
    ElementRun run = RunInPieces(array, i);
    if (!run.Has(i)) {
      GatherElement(array, i, room);
      run = {room, i, 1};
    }
    const uint64_t left = run.first + run.count - i;
    const uint64_t n = left < end - i ? left : end - i;
    if (!body(run.data + (i - run.first) * size, n)) return false;
    i += n;
  }
  return true;
}

// Integer i of those at `data`; one of 2^63 or more for negative ones, so that one comparison finds them out of range.
inline uint64_t IntegerAt(ElementType type, const std::byte* data, uint64_t i) {
  switch (type) {
    case ElementType::kU16:
      return LoadAt<uint16_t>(data, i);
    case ElementType::kU32:
      return LoadAt<uint32_t>(data, i);
    case ElementType::kI32:
      return static_cast<uint64_t>(static_cast<int64_t>(LoadAt<int32_t>(data, i)));
    default:
      return static_cast<uint64_t>(LoadAt<int64_t>(data, i));
  }
}

// The same of an array, wherever it lies.
uint64_t IntegerInPieces(const TypedArray& array, uint64_t i);
inline uint64_t IntegerAt(const TypedArray& array, uint64_t i) {
  return array.pieces.empty() ? IntegerAt(array.type, array.data, i) : IntegerInPieces(array, i);
}

// Reads integers of an array one after the other; pieces are sought only where they change.
class IntegerReader {
 public:
  explicit IntegerReader(const TypedArray& array) : array_(array), run_(RunAt(array, 0)) {}
  uint64_t operator[](uint64_t i) {
    if (!run_.Has(i)) {
      run_ = RunAt(array_, i);
      if (!run_.Has(i)) return IntegerInPieces(array_, i);
    }
    return IntegerAt(array_.type, run_.data, i - run_.first);
  }

 private:
  const TypedArray& array_;
  ElementRun run_;
};

// Lengths of the rows of a checked view, one after the other: what RowCursor does, in loops over many short rows.
class RowLengths {
 public:
  // From `cursor`'s row on.
  explicit RowLengths(const RowCursor& cursor)
      : has_offsets_(cursor.csr().indptr.has_value()),
        numbers_(has_offsets_ ? *cursor.csr().indptr : *cursor.csr().row_lengths),
        at_(cursor.row() + (has_offsets_ ? 1 : 0)),
        begin_(cursor.begin()) {}
  uint64_t Next() {
    const uint64_t number = numbers_[at_++];
    const uint64_t length = has_offsets_ ? number - begin_ : number;
    begin_ += length;
    return length;
  }

 private:
  const bool has_offsets_;
  IntegerReader numbers_;
  uint64_t at_;
  uint64_t begin_;
};

// Rows of a view that has passed CheckShape.
inline uint64_t RowCount(const CsrView& csr) {
  return csr.indptr.has_value() ? csr.indptr->count - 1 : csr.row_lengths->count;
}

// Half precision, as a type of its own so that templates can tell it from u16.
struct Half {
  uint16_t bits;
};

// The half-precision number equal to `value`, if there is one; else some other. The inverse of numeric::FromFloat16:
// multiplying by 2^-112 moves the exponent, and float's subnormals fall on half's.
WIDELANE_INLINE uint16_t HalfBitsOf(float value) {
  const uint32_t bits = numeric::FloatBitsOf(value);
  const float scaled = numeric::FloatFromBits(bits & 0x7FFFFFFFu) * 0x1p-112F;
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) | numeric::FloatBitsOf(scaled) >> 13);
}

inline double ToDouble(Half half) { return numeric::FromFloat16(half.bits); }
inline double ToDouble(float value) { return value; }
inline double ToDouble(double value) { return value; }

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_ELEMENTS_H_
