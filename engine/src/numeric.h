// The numeric contract in one source for host and device: grid, terms, raw sums and links (engine/README.md has the
// proof).
//
// Only + - * / and fma in double are used, each correctly rounded on every machine, so every path gives the same bits.
// Files that include this are compiled without contraction (-ffp-contract=off, --fmad=false). Every function is inlined
// by force, so that code compiled for one instruction set is never shared with another.

#ifndef WIDELANE_ENGINE_SRC_NUMERIC_H_
#define WIDELANE_ENGINE_SRC_NUMERIC_H_

#include <cstdint>

#include "widelane/engine/model_types.h"

#if defined(__CUDACC__)
#define WIDELANE_INLINE static __host__ __device__ __forceinline__
#else
#define WIDELANE_INLINE static inline __attribute__((always_inline))
#endif

namespace widelane::numeric {

WIDELANE_INLINE int64_t BitsOf(double x) {
#if defined(__CUDA_ARCH__)
  return __double_as_longlong(x);
#else
  return __builtin_bit_cast(int64_t, x);
#endif
}

WIDELANE_INLINE double FromBits(int64_t bits) {
#if defined(__CUDA_ARCH__)
  return __longlong_as_double(bits);
#else
  return __builtin_bit_cast(double, bits);
#endif
}

WIDELANE_INLINE float FloatFromBits(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  return __builtin_bit_cast(float, bits);
#endif
}

WIDELANE_INLINE uint32_t FloatBitsOf(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  return __builtin_bit_cast(uint32_t, x);
#endif
}

WIDELANE_INLINE float FmaFloat(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return fmaf(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

WIDELANE_INLINE double Fma(double a, double b, double c) {
#if defined(__CUDA_ARCH__)
  return fma(a, b, c);
#else
  return __builtin_fma(a, b, c);
#endif
}

// 2^n, for n from -1022 to 1023.
WIDELANE_INLINE double PowerOfTwo(int n) { return FromBits(static_cast<int64_t>(n + 1023) << 52); }

// Adding this to a double of magnitude below 2^51 rounds it to an integer, ties to even; the integer is the difference
// of the bit patterns.
inline constexpr double kRounder = 6755399441055744.0;  // 1.5 * 2^52

// Terms are rounded to multiples of 2^(E - kTermBits).
inline constexpr int kTermBits = 38;

// The grid of one row: products are counted in steps of `step`.
struct Grid {
  double step;          // 2^(E - 38)
  double inverse_step;  // 2^(38 - E)
};

// E is the least exponent with max_weight * max_value < 2^E; the product of two floats is exact in double, and far
// from subnormal. All weights or all values zero: E = 0, any would do.
WIDELANE_INLINE Grid GridFor(double max_weight, float max_value) {
  const double bound = max_weight * static_cast<double>(max_value);
  const int exponent = bound > 0 ? static_cast<int>(BitsOf(bound) >> 52) - 1022 : 0;
  return {PowerOfTwo(exponent - kTermBits), PowerOfTwo(kTermBits - exponent)};
}

// weight * value in steps, rounded to nearest, ties to even. `scaled_value` is value * inverse_step (exact). The
// product has at most 48 significant bits, so fused and unfused agree.
WIDELANE_INLINE int64_t Term(double weight, double scaled_value) {
#if defined(__CUDA_ARCH__) || defined(__FMA__)
  return BitsOf(Fma(weight, scaled_value, kRounder)) - BitsOf(kRounder);
#else
  return BitsOf(weight * scaled_value + kRounder) - BitsOf(kRounder);
#endif
}

// The same terms with single precision arithmetic only (engine/README.md, "Terms in single precision"), for machines
// that do more of it: a term is split as high * 2^23 + low. `scaled` is value * 2^-E, so that |weight * scaled| < 1.
// What is added up are bit patterns, modulo 2^32; SplitSum takes the rounders' share out again.
struct SplitSums {
  uint32_t high = 0;
  uint32_t low = 0;
};
inline constexpr float kHighRounder = 384.0F;              // 1.5 * 2^23 * 2^-15: rounds to multiples of 2^-15
inline constexpr float kLowRounder = 1.5F * 0x1p-15F;      // 1.5 * 2^23 * 2^-38: rounds to multiples of 2^-38
inline constexpr uint32_t kHighRounderBits = 0x43C00000u;  // of kHighRounder
inline constexpr uint32_t kLowRounderBits = 0x38400000u;   // of kLowRounder
// A low part is at most 2^22, so this many of them stay within 32 bits.
inline constexpr uint32_t kMaxSplitTerms = 511;

// Whether terms may be split: 2^-E and scaled values then stay within float's range.
WIDELANE_INLINE bool MaySplit(double max_weight) {
  return max_weight == 0 || (max_weight >= 0x1p-60 && max_weight <= 0x1p60);
}

// The two factors, both powers of two, whose product is 2^-E: one alone may be outside float's range.
struct SplitScale {
  float first;
  float second;
};

WIDELANE_INLINE SplitScale SplitScaleFor(const Grid& grid) {
  const int exponent = static_cast<int>(BitsOf(grid.inverse_step) >> 52) - 1023 - kTermBits;  // -E
  const int half = exponent >> 1;
  return {static_cast<float>(PowerOfTwo(half)), static_cast<float>(PowerOfTwo(exponent - half))};
}

// value * 2^-E, exact unless it is so small that its product with any weight rounds to 0.
WIDELANE_INLINE float SplitValue(float value, const SplitScale& scale) { return value * scale.first * scale.second; }

WIDELANE_INLINE void AddSplitTerm(float weight, float scaled, SplitSums& sums) {
  const float high = FmaFloat(weight, scaled, kHighRounder);
  const float rest = kLowRounder - (high - kHighRounder);  // both differences are exact
  const float low = FmaFloat(weight, scaled, rest);        // kLowRounder + what `high` left
  sums.high += FloatBitsOf(high);
  sums.low += FloatBitsOf(low);
}

// The sum in steps of `count` terms, at most kMaxSplitTerms.
WIDELANE_INLINE int64_t SplitSum(const SplitSums& sums, uint32_t count) {
  const int32_t high = static_cast<int32_t>(sums.high - count * kHighRounderBits);
  const int32_t low = static_cast<int32_t>(sums.low - count * kLowRounderBits);
  return static_cast<int64_t>(high) * (int64_t{1} << 23) + low;
}

// bias + scale * sum. step * scale is exact (a power of two times a float), the sum is rounded to double once, the rest
// once.
WIDELANE_INLINE double RawSum(int64_t steps, double step, double scale, double bias) {
  return Fma(static_cast<double>(steps), step * scale, bias);
}

// exp(x) for x from kLeastExp to kLargestExp, within 1 ulp or so: x = k ln2 + r (Cody and Waite), Taylor to r^13, error
// below 2^-57 for |r| <= ln2 / 2. Without a branch, so that loops over it can be vectorised.
inline constexpr double kLeastExp = -746.0;
inline constexpr double kLargestExp = 710.0;
WIDELANE_INLINE double ExpWithin(double x) {
  const double shifted = Fma(x, 1.4426950408889634074, kRounder);
  const int k = static_cast<int>(BitsOf(shifted) - BitsOf(kRounder));
  const double n = shifted - kRounder;
  double r = Fma(n, -6.93147180369123816490e-01, x);  // high part of ln2, 32 bits, so n times it is exact
  r = Fma(n, -1.90821492927058770002e-10, r);
  double p = 1.0 / 6227020800.0;
  p = Fma(p, r, 1.0 / 479001600.0);
  p = Fma(p, r, 1.0 / 39916800.0);
  p = Fma(p, r, 1.0 / 3628800.0);
  p = Fma(p, r, 1.0 / 362880.0);
  p = Fma(p, r, 1.0 / 40320.0);
  p = Fma(p, r, 1.0 / 5040.0);
  p = Fma(p, r, 1.0 / 720.0);
  p = Fma(p, r, 1.0 / 120.0);
  p = Fma(p, r, 1.0 / 24.0);
  p = Fma(p, r, 1.0 / 6.0);
  p = Fma(p, r, 0.5);
  p = Fma(p, r, 1.0);
  p = Fma(p, r, 1.0);
  const int half = k >> 1;  // two factors, since 2^k itself may not be a normal double
  return p * PowerOfTwo(half) * PowerOfTwo(k - half);
}

// exp(x) for finite x: 0 where the true value is below the least subnormal, infinity above the largest double.
WIDELANE_INLINE double Exp(double x) {
  if (x < kLeastExp) return 0.0;
  if (x > kLargestExp) return FromBits(0x7FF0000000000000);
  return ExpWithin(x);
}

WIDELANE_INLINE double Sigmoid(double x) {
  if (x >= 0) return 1.0 / (1.0 + Exp(-x));
  const double e = Exp(x);
  return e / (1.0 + e);
}

// Links that look at one output only.
WIDELANE_INLINE double PointwiseLink(Link link, double raw) {
  if (link == Link::kSigmoid) return Sigmoid(raw);
  if (link == Link::kExp) return Exp(raw);
  return raw;
}

WIDELANE_INLINE bool IsPointwise(Link link) { return link != Link::kSoftmax && link != Link::kOneVsRest; }

// The share of one output before normalisation, divided by that of the largest raw sum `max`: in [0, 1], and 1 at
// the largest, so that the sum over outputs is at least 1 and nothing overflows. For one-vs-rest
// sigmoid(x) / sigmoid(max) = exp(x - max) (1 + exp(max)) / (1 + exp(x)), which stays finite where both sigmoids
// underflow.
WIDELANE_INLINE double Share(Link link, double raw, double max) {
  if (link == Link::kSoftmax) return Exp(raw - max);
  if (max >= 0) return Sigmoid(raw) / Sigmoid(max);
  return Exp(raw - max) * (1.0 + Exp(max)) / (1.0 + Exp(raw));
}

// A share on the grid of 2^-38, so that the sum over fewer than 2^24 outputs is an exact 64-bit integer.
WIDELANE_INLINE int64_t ShareSteps(double share) { return BitsOf(Fma(share, 0x1p38, kRounder)) - BitsOf(kRounder); }

// `share` over the sum of all, given in steps.
WIDELANE_INLINE double Normalised(double share, int64_t sum_steps) {
  return share / (static_cast<double>(sum_steps) * 0x1p-38);
}

// IEEE half precision and bfloat16 to float, exact; by bits, so that no compiler flag changes them.
WIDELANE_INLINE float FromFloat16(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t magnitude = h & 0x7FFFu;
  // Shift the exponent and mantissa into place, then multiply by 2^112 to correct the bias; subnormals come out right.
  const float scaled = FloatFromBits(magnitude << 13) * 0x1p112F;
  const uint32_t special = magnitude >= 0x7C00u ? 0x7F800000u | (magnitude << 13) : 0;
#if defined(__CUDA_ARCH__)
  const uint32_t bits = special != 0 ? special : __float_as_uint(scaled);
#else
  const uint32_t bits = special != 0 ? special : __builtin_bit_cast(uint32_t, scaled);
#endif
  return FloatFromBits(sign | bits);
}

WIDELANE_INLINE float FromBfloat16(uint16_t b) { return FloatFromBits(static_cast<uint32_t>(b) << 16); }

}  // namespace widelane::numeric

#endif  // WIDELANE_ENGINE_SRC_NUMERIC_H_
