// The row kernels on 4 lanes. row_kernels_plain.cc says what each word means.

#include <immintrin.h>

#include <cstdint>

#include "numeric.h"

#define WIDELANE_ISA avx2

namespace widelane::cpu::WIDELANE_ISA {

namespace {

constexpr uint32_t kLanes = 4;
using Doubles = __m256d;
using Sums = __m256i;

inline Doubles Broadcast(double x) { return _mm256_set1_pd(x); }
inline Doubles Multiply(Doubles a, Doubles b) { return _mm256_mul_pd(a, b); }

inline Sums LoadSums(const uint64_t* sums) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums)); }
inline void StoreSums(uint64_t* to, Sums sums) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), sums); }
inline uint64_t Total(Sums sums) {
  const __m128i halves = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  return static_cast<uint64_t>(_mm_extract_epi64(halves, 0)) + static_cast<uint64_t>(_mm_extract_epi64(halves, 1));
}

inline Sums AddTerms(Sums sums, Doubles weights, Doubles scaled) {
  const __m256d rounded = _mm256_fmadd_pd(weights, scaled, _mm256_set1_pd(numeric::kRounder));
  return _mm256_add_epi64(sums, _mm256_castpd_si256(rounded));
}

// Weights come as four 32-bit elements, loaded at once where they lie side by side.
struct Float32 {
  using Stored = float;
  static __m128i Load4(const float* weights) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(weights)); }
  static __m128i Pack(float a, float b, float c, float d) { return _mm_castps_si128(_mm_setr_ps(a, b, c, d)); }
  static Doubles Convert(__m128i bits) { return _mm256_cvtps_pd(_mm_castsi128_ps(bits)); }
};
struct Packed16 {
  using Stored = uint16_t;
  static __m128i Load4(const uint16_t* weights) {
    return _mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(weights)));
  }
  static __m128i Pack(uint16_t a, uint16_t b, uint16_t c, uint16_t d) { return _mm_setr_epi32(a, b, c, d); }
};
struct Float16 : Packed16 {
  // As numeric::FromFloat16; weights and values are finite. (F16C is an instruction set of its own.)
  static Doubles Convert(__m128i bits) {
    const __m128i magnitude = _mm_slli_epi32(_mm_and_si128(bits, _mm_set1_epi32(0x7FFF)), 13);
    const __m128 scaled = _mm_mul_ps(_mm_castsi128_ps(magnitude), _mm_set1_ps(0x1p112F));
    const __m128i sign = _mm_slli_epi32(_mm_and_si128(bits, _mm_set1_epi32(0x8000)), 16);
    return _mm256_cvtps_pd(_mm_or_ps(scaled, _mm_castsi128_ps(sign)));
  }
};
struct Bfloat16 : Packed16 {
  static Doubles Convert(__m128i bits) { return _mm256_cvtps_pd(_mm_castsi128_ps(_mm_slli_epi32(bits, 16))); }
};
struct Int8 {
  using Stored = int8_t;
  static __m128i Load4(const int8_t* weights) { return _mm_cvtepi8_epi32(_mm_loadu_si32(weights)); }
  static __m128i Pack(int8_t a, int8_t b, int8_t c, int8_t d) { return _mm_setr_epi32(a, b, c, d); }
  static Doubles Convert(__m128i bits) { return _mm256_cvtepi32_pd(bits); }
};

template <typename Weight>
Doubles Load(const typename Weight::Stored* weights, uint32_t n) {
  if (n == kLanes) return Weight::Convert(Weight::Load4(weights));
  const typename Weight::Stored zero = 0;
  return Weight::Convert(Weight::Pack(weights[0], n > 1 ? weights[1] : zero, n > 2 ? weights[2] : zero, zero));
}

// Four loads: the gather instruction takes twice as long on some processors and is no faster on the others.
template <typename Weight, typename Index>
Doubles Gather(const typename Weight::Stored* weights, const Index* indices, uint32_t n) {
  const typename Weight::Stored zero = 0;
  if (n == kLanes) {
    return Weight::Convert(
        Weight::Pack(weights[indices[0]], weights[indices[1]], weights[indices[2]], weights[indices[3]]));
  }
  return Weight::Convert(
      Weight::Pack(weights[indices[0]], n > 1 ? weights[indices[1]] : zero, n > 2 ? weights[indices[2]] : zero, zero));
}

}  // namespace

}  // namespace widelane::cpu::WIDELANE_ISA

#include "cpu/row_kernels.inc"  // NOLINT(bugprone-suspicious-include)
