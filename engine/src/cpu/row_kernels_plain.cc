// The row kernels without vectors. The other instruction sets have the same words, on several lanes.

#include <cstdint>

#include "numeric.h"

#define WIDELANE_ISA plain

namespace widelane::cpu::WIDELANE_ISA {

namespace {

// Numbers a vector holds. Functions that take a count n of lanes, from 1 to kLanes, read nothing of the others and give
// zeros there.
constexpr uint32_t kLanes = 1;
using Doubles = double;
using Sums = uint64_t;

inline Doubles Broadcast(double x) { return x; }
inline Doubles Multiply(Doubles a, Doubles b) { return a * b; }

inline Sums LoadSums(const uint64_t* sums) { return *sums; }
inline void StoreSums(uint64_t* to, Sums sums) { *to = sums; }
inline uint64_t Total(Sums sums) { return sums; }

// Adds the bits of kRounder + term, modulo 2^64.
inline Sums AddTerms(Sums sums, Doubles weights, Doubles scaled) {
  return sums + static_cast<uint64_t>(numeric::BitsOf(weights * scaled + numeric::kRounder));
}

struct Float32 {
  using Stored = float;
  static Doubles Convert(float weight) { return weight; }
};
struct Float16 {
  using Stored = uint16_t;
  static Doubles Convert(uint16_t weight) { return numeric::FromFloat16(weight); }
};
struct Bfloat16 {
  using Stored = uint16_t;
  static Doubles Convert(uint16_t weight) { return numeric::FromBfloat16(weight); }
};
struct Int8 {
  using Stored = int8_t;
  static Doubles Convert(int8_t weight) { return weight; }
};

// weights[0] to weights[n - 1].
template <typename Weight>
Doubles Load(const typename Weight::Stored* weights, uint32_t /*n*/) {
  return Weight::Convert(*weights);
}

// weights[indices[0]] to weights[indices[n - 1]].
template <typename Weight, typename Index>
Doubles Gather(const typename Weight::Stored* weights, const Index* indices, uint32_t /*n*/) {
  return Weight::Convert(weights[*indices]);
}

}  // namespace

}  // namespace widelane::cpu::WIDELANE_ISA

#include "cpu/row_kernels.inc"  // NOLINT(bugprone-suspicious-include)
