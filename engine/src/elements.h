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

// An integer element; one of 2^63 or more for negative ones, so that one comparison finds them out of range.
inline uint64_t IntegerAt(const TypedArray& array, uint64_t i) {
  switch (array.type) {
    case ElementType::kU16:
      return LoadAt<uint16_t>(array.data, i);
    case ElementType::kU32:
      return LoadAt<uint32_t>(array.data, i);
    case ElementType::kI32:
      return static_cast<uint64_t>(static_cast<int64_t>(LoadAt<int32_t>(array.data, i)));
    default:
      return static_cast<uint64_t>(LoadAt<int64_t>(array.data, i));
  }
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
