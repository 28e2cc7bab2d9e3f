// The row kernels on 8 lanes. row_kernels_plain.cc says what each word means.

#include <immintrin.h>

#include <cstdint>

#include "numeric.h"

#define WIDELANE_ISA avx512

namespace widelane::cpu::WIDELANE_ISA {

namespace {

constexpr uint32_t kLanes = 8;
using Doubles = __m512d;
using Sums = __m512i;

inline Doubles Broadcast(double x) { return _mm512_set1_pd(x); }
inline Doubles Multiply(Doubles a, Doubles b) { return _mm512_mul_pd(a, b); }

inline Sums LoadSums(const uint64_t* sums) { return _mm512_loadu_si512(sums); }
inline void StoreSums(uint64_t* to, Sums sums) { _mm512_storeu_si512(to, sums); }
// Not _mm512_reduce_add_epi64, which adds signed numbers: these are bit patterns that wrap.
inline uint64_t Total(Sums sums) {
  const __m256i four = _mm256_add_epi64(_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64(sums, 1));
  const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
  return static_cast<uint64_t>(_mm_cvtsi128_si64(two)) + static_cast<uint64_t>(_mm_extract_epi64(two, 1));
}

inline Sums AddTerms(Sums sums, Doubles weights, Doubles scaled) {
  const __m512d rounded = _mm512_fmadd_pd(weights, scaled, _mm512_set1_pd(numeric::kRounder));
  return _mm512_add_epi64(sums, _mm512_castpd_si512(rounded));
}

inline __mmask8 First(uint32_t n) { return static_cast<__mmask8>((1U << n) - 1); }

// An index as the gather instructions take it: signed, so 32-bit ones count from the middle.
inline __m256i GatherIndex(const uint16_t* indices, uint32_t n) {
  return _mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(First(n), indices));
}
inline __m256i GatherIndex(const uint32_t* indices, uint32_t n) {
  return _mm256_xor_si256(_mm256_maskz_loadu_epi32(First(n), indices), _mm256_set1_epi32(INT32_MIN));
}
constexpr uint64_t MiddleOf(const uint16_t* /*indices*/) { return 0; }
constexpr uint64_t MiddleOf(const uint32_t* /*indices*/) { return uint64_t{1} << 31; }

// Gathers 32 bits a lane, zeros where none counts. Without the zeros each gather would wait for the one before it, and
// the compiler would leave them out where it sees that all lanes count.
inline __m256i Gather32(const void* base, __m256i index, uint32_t n) {
  uint32_t mask = First(n);
  asm("" : "+r"(mask));
  return _mm256_mmask_i32gather_epi32(_mm256_setzero_si256(), static_cast<__mmask8>(mask), index, base, 4);
}

inline __m512d FromHalves(__m128i halves) { return _mm512_cvtps_pd(_mm256_maskz_cvtph_ps(0xFF, halves)); }

struct Float32 {
  using Stored = float;
  static Doubles Load(const float* weights, uint32_t n) {
    return _mm512_cvtps_pd(_mm256_maskz_loadu_ps(First(n), weights));
  }
  static Doubles Gather(const float* middle, __m256i index, uint32_t n) {
    return _mm512_cvtps_pd(_mm256_castsi256_ps(Gather32(middle, index, n)));
  }
};

// Two of these share the 32 bits that are gathered, four of Int8: no lane reads beyond the weights' last word.
struct Narrow16 {
  using Stored = uint16_t;
  static __m128i Load16(const uint16_t* weights, uint32_t n) { return _mm_maskz_loadu_epi16(First(n), weights); }
  // The weight in the low half of each lane, anything above.
  static __m256i Gather16(const uint16_t* middle, __m256i index, uint32_t n) {
    const __m256i pairs = Gather32(middle, _mm256_srai_epi32(index, 1), n);
    const __m256i odd = _mm256_and_si256(index, _mm256_set1_epi32(1));
    return _mm256_srlv_epi32(pairs, _mm256_slli_epi32(odd, 4));
  }
};
struct Float16 : Narrow16 {
  static Doubles Load(const uint16_t* weights, uint32_t n) { return FromHalves(Load16(weights, n)); }
  static Doubles Gather(const uint16_t* middle, __m256i index, uint32_t n) {
    return FromHalves(_mm256_cvtepi32_epi16(Gather16(middle, index, n)));
  }
};
struct Bfloat16 : Narrow16 {
  static Doubles FromUpperHalves(__m256i bits) {
    return _mm512_cvtps_pd(_mm256_castsi256_ps(_mm256_slli_epi32(bits, 16)));
  }
  static Doubles Load(const uint16_t* weights, uint32_t n) {
    return FromUpperHalves(_mm256_cvtepu16_epi32(Load16(weights, n)));
  }
  static Doubles Gather(const uint16_t* middle, __m256i index, uint32_t n) {
    return FromUpperHalves(Gather16(middle, index, n));
  }
};
struct Int8 {
  using Stored = int8_t;
  static Doubles Load(const int8_t* weights, uint32_t n) {
    return _mm512_cvtepi32_pd(_mm256_cvtepi8_epi32(_mm_maskz_loadu_epi8(First(n), weights)));
  }
  static Doubles Gather(const int8_t* middle, __m256i index, uint32_t n) {
    const __m256i words = Gather32(middle, _mm256_srai_epi32(index, 2), n);
    const __m256i place = _mm256_andnot_si256(index, _mm256_set1_epi32(3));  // from the top
    return _mm512_cvtepi32_pd(_mm256_srai_epi32(_mm256_sllv_epi32(words, _mm256_slli_epi32(place, 3)), 24));
  }
};

template <typename Weight>
Doubles Load(const typename Weight::Stored* weights, uint32_t n) {
  return Weight::Load(weights, n);
}

template <typename Weight, typename Index>
Doubles Gather(const typename Weight::Stored* weights, const Index* indices, uint32_t n) {
  return Weight::Gather(weights + MiddleOf(indices), GatherIndex(indices, n), n);
}

}  // namespace

}  // namespace widelane::cpu::WIDELANE_ISA

#include "cpu/row_kernels.inc"  // NOLINT(bugprone-suspicious-include)
