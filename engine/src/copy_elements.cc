#include "copy_elements.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "elements.h"

// A second copy of each loop for AVX2, taken where the processor has it.
#if defined(WIDELANE_X86)
#define WIDELANE_AVX2 __attribute__((target("avx2")))
#endif

namespace widelane {

namespace {

// Doubles from here on round to a float beyond the largest: half a unit above it.
constexpr double kBeyondFloat = 0x1.ffffffp127;

// Indices of up to 32 bits: as unsigned numbers negative ones are 2^31 or more, and `limit` is at most that for them.
template <typename In, typename Out>
WIDELANE_INLINE uint64_t NarrowIndices(const std::byte* data, uint64_t count, uint64_t features, Out* out) {
  constexpr bool kSigned = std::numeric_limits<In>::is_signed;
  const uint64_t most = kSigned ? uint64_t{1} << 31 : std::numeric_limits<uint32_t>::max();
  const auto limit = static_cast<uint32_t>(std::min(features, most));
  const auto zero_feature = static_cast<uint32_t>(features);
  uint32_t unknown = 0;
  for (uint64_t i = 0; i < count; ++i) {
    In in;
    __builtin_memcpy(&in, data + i * sizeof(In), sizeof(In));
    const auto index = static_cast<uint32_t>(in);
    const bool known = index < limit;
    unknown += known ? 0U : 1U;
    out[i] = static_cast<Out>(known ? index : zero_feature);
  }
  return unknown;
}

template <typename Out>
WIDELANE_INLINE uint64_t NarrowIndices64(const std::byte* data, uint64_t count, uint64_t features, Out* out) {
  uint64_t unknown = 0;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t index;
    __builtin_memcpy(&index, data + i * sizeof(index), sizeof(index));
    const bool known = index < features;
    unknown += known ? 0U : 1U;
    out[i] = static_cast<Out>(known ? index : features);
  }
  return unknown;
}

template <typename Out>
WIDELANE_INLINE uint64_t CopyIndicesOf(ElementType type, const std::byte* data, uint64_t count, uint64_t features,
                                       Out* out) {
  switch (type) {
    case ElementType::kU16:
      return NarrowIndices<uint16_t>(data, count, features, out);
    case ElementType::kU32:
      return NarrowIndices<uint32_t>(data, count, features, out);
    case ElementType::kI32:
      return NarrowIndices<int32_t>(data, count, features, out);
    default:
      return NarrowIndices64(data, count, features, out);
  }
}

template <typename In>
WIDELANE_INLINE In ElementAt(const std::byte* data, uint64_t i) {
  In in;
  __builtin_memcpy(&in, data + i * sizeof(In), sizeof(In));
  return in;
}

// By comparisons alone, so that the loops stay free of branches.
WIDELANE_INLINE bool IsFinite(float value) { return std::fabs(value) <= std::numeric_limits<float>::max(); }

WIDELANE_INLINE bool CopyFloats(const std::byte* data, uint64_t count, float* out) {
  uint32_t bad = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const auto value = ElementAt<float>(data, i);
    bad |= IsFinite(value) ? 0U : 1U;
    out[i] = value;
  }
  return bad == 0;
}

WIDELANE_INLINE bool CopyDoubles(const std::byte* data, uint64_t count, float* out) {
  uint32_t bad = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const auto value = ElementAt<double>(data, i);
    bad |= std::fabs(value) < kBeyondFloat ? 0U : 1U;
    out[i] = static_cast<float>(value);
  }
  return bad == 0;
}

WIDELANE_INLINE bool CopyHalves(const std::byte* data, uint64_t count, float* out) {
  uint32_t bad = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const float value = numeric::FromFloat16(ElementAt<uint16_t>(data, i));
    bad |= IsFinite(value) ? 0U : 1U;
    out[i] = value;
  }
  return bad == 0;
}

WIDELANE_INLINE bool CopyValuesOf(ElementType type, const std::byte* data, uint64_t count, float* out) {
  switch (type) {
    case ElementType::kF16:
      return CopyHalves(data, count, out);
    case ElementType::kF32:
      return CopyFloats(data, count, out);
    default:
      return CopyDoubles(data, count, out);
  }
}

template <typename In>
WIDELANE_INLINE bool NarrowToHalf(const std::byte* data, uint64_t count, uint16_t* out) {
  uint32_t bad = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const In value = ElementAt<In>(data, i);
    const uint16_t half = HalfBitsOf(static_cast<float>(value));
    // Infinities are not equal to what their bits become.
    bad |= static_cast<In>(numeric::FromFloat16(half)) == value && std::fabs(value) <= In{65504} ? 0U : 1U;
    out[i] = half;
  }
  return bad == 0;
}

WIDELANE_INLINE bool CopyHalves(const std::byte* data, uint64_t count, uint16_t* out) {
  uint32_t bad = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const auto half = ElementAt<uint16_t>(data, i);
    bad |= (half & 0x7C00u) == 0x7C00u ? 1U : 0U;
    out[i] = half;
  }
  return bad == 0;
}

WIDELANE_INLINE bool CopyValuesOf(ElementType type, const std::byte* data, uint64_t count, uint16_t* out) {
  switch (type) {
    case ElementType::kF16:
      return CopyHalves(data, count, out);
    case ElementType::kF32:
      return NarrowToHalf<float>(data, count, out);
    default:
      return NarrowToHalf<double>(data, count, out);
  }
}

// Bits of numbers without a sign have the order of the numbers.
template <typename Bits, typename Value>
WIDELANE_INLINE Bits LargestBits(const Value* values, uint64_t count) {
  constexpr auto kMagnitude = static_cast<Bits>(std::numeric_limits<Bits>::max() >> 1);
  Bits largest = 0;
  for (uint64_t i = 0; i < count; ++i) {
    Bits bits;
    __builtin_memcpy(&bits, values + i, sizeof(bits));
    bits &= kMagnitude;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

template <typename Bits, typename Value>
Bits LargestBitsPlain(const Value* values, uint64_t count) {
  return LargestBits<Bits>(values, count);
}

template <typename Out>
uint64_t CopyIndicesPlain(ElementType type, const std::byte* data, uint64_t count, uint64_t features, Out* out) {
  return CopyIndicesOf(type, data, count, features, out);
}

template <typename Out>
bool CopyValuesPlain(ElementType type, const std::byte* data, uint64_t count, Out* out) {
  return CopyValuesOf(type, data, count, out);
}

#if defined(WIDELANE_X86)
template <typename Out>
WIDELANE_AVX2 uint64_t CopyIndicesAvx2(ElementType type, const std::byte* data, uint64_t count, uint64_t features,
                                       Out* out) {
  return CopyIndicesOf(type, data, count, features, out);
}

template <typename Out>
WIDELANE_AVX2 bool CopyValuesAvx2(ElementType type, const std::byte* data, uint64_t count, Out* out) {
  return CopyValuesOf(type, data, count, out);
}

template <typename Bits, typename Value>
WIDELANE_AVX2 Bits LargestBitsAvx2(const Value* values, uint64_t count) {
  return LargestBits<Bits>(values, count);
}

bool CopiesByAvx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}
#endif

template <typename Out>
uint64_t CopyIndexRun(ElementType type, const std::byte* data, uint64_t count, uint64_t features, Out* out) {
#if defined(WIDELANE_X86)
  if (CopiesByAvx2()) return CopyIndicesAvx2(type, data, count, features, out);
#endif
  return CopyIndicesPlain(type, data, count, features, out);
}

template <typename Out>
bool CopyValueRun(ElementType type, const std::byte* data, uint64_t count, Out* out) {
#if defined(WIDELANE_X86)
  if (CopiesByAvx2()) return CopyValuesAvx2(type, data, count, out);
#endif
  return CopyValuesPlain(type, data, count, out);
}

template <typename Out>
bool CopyValuesTo(const TypedArray& in, uint64_t begin, uint64_t count, Out* out) {
  return ForEachRun(in, begin, count, [&](const std::byte* data, uint64_t n) {
    const bool all_fit = CopyValueRun(in.type, data, n, out);
    out += n;
    return all_fit;
  });
}

template <typename Bits, typename Value>
Bits LargestBitsOf(const Value* values, uint64_t count) {
#if defined(WIDELANE_X86)
  if (CopiesByAvx2()) return LargestBitsAvx2<Bits>(values, count);
#endif
  return LargestBitsPlain<Bits>(values, count);
}

// How many of the first values are 1.
template <typename In>
uint64_t LeadingOnes(const TypedArray& values, uint64_t begin, uint64_t count) {
  uint64_t ones = 0;
  ForEachRun(values, begin, count, [&](const std::byte* data, uint64_t n) {
    uint64_t i = 0;
    while (i < n && ToDouble(LoadAt<In>(data, i)) == 1.0) ++i;
    ones += i;
    return i == n;
  });
  return ones;
}

uint64_t LeadingOnes(const TypedArray& values, uint64_t begin, uint64_t count) {
  switch (values.type) {
    case ElementType::kF16:
      return LeadingOnes<Half>(values, begin, count);
    case ElementType::kF32:
      return LeadingOnes<float>(values, begin, count);
    default:
      return LeadingOnes<double>(values, begin, count);
  }
}

}  // namespace

template <typename Out>
uint64_t CopyIndices(const TypedArray& in, uint64_t begin, uint64_t count, uint64_t features, Out* out) {
  uint64_t unknown = 0;
  ForEachRun(in, begin, count, [&](const std::byte* data, uint64_t n) {
    unknown += CopyIndexRun(in.type, data, n, features, out);
    out += n;
    return true;
  });
  return unknown;
}
template uint64_t CopyIndices(const TypedArray&, uint64_t, uint64_t, uint64_t, uint16_t*);
template uint64_t CopyIndices(const TypedArray&, uint64_t, uint64_t, uint64_t, uint32_t*);

bool CopyValues(const TypedArray& in, uint64_t begin, uint64_t count, float* out) {
  return CopyValuesTo(in, begin, count, out);
}

bool CopyValues(const TypedArray& in, uint64_t begin, uint64_t count, uint16_t* out) {
  return CopyValuesTo(in, begin, count, out);
}

float LargestOf(const float* values, uint64_t count) {
  return numeric::FloatFromBits(LargestBitsOf<uint32_t>(values, count));
}

float LargestOf(const uint16_t* values, uint64_t count) {
  return numeric::FromFloat16(LargestBitsOf<uint16_t>(values, count));
}

Values NarrowestOf(const TypedArray& values, uint64_t begin, uint64_t count) {
  uint64_t i = LeadingOnes(values, begin, count);
  if (i == count) return Values::kOnes;
  if (values.type == ElementType::kF16) return Values::kFloat16;
  // In blocks, so that the first value that does not fit ends it and the loops stay simple.
  uint16_t halves[256];
  while (i < count) {
    const uint64_t n = std::min<uint64_t>(count - i, std::size(halves));
    if (!CopyValues(values, begin + i, n, halves)) return Values::kFloat32;
    i += n;
  }
  return Values::kFloat16;
}

}  // namespace widelane
