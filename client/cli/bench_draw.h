// Pseudo-random numbers for made data. Each depends on seed and position alone, so any number of threads make the same
// data.

#ifndef WIDELANE_CLIENT_CLI_BENCH_DRAW_H_
#define WIDELANE_CLIENT_CLI_BENCH_DRAW_H_

#include <cstdint>

namespace widelane::cli {

// 64 random bits: number `position` of Sebastiano Vigna's SplitMix64 started with `seed`.
inline uint64_t RandomBits(uint64_t seed, uint64_t position) {
  uint64_t bits = seed + (position + 1) * 0x9E3779B97F4A7C15U;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBU;
  return bits ^ (bits >> 31);
}

// In [0, 1), all 53 bits random: floats would give 2^24 features at most.
inline double RandomUnit(uint64_t seed, uint64_t position) {
  return static_cast<double>(RandomBits(seed, position) >> 11) * 0x1p-53;
}

// Features 0 to `features` - 1, the i-th most frequent as often as i^-exponent; exponent 0: all alike. The inverse of
// the continuous distribution function, which needs no table: exact enough from the third on. Frequent features are
// scattered over all, as hashing does it; side by side they would share cache lines.
class FeatureDraw {
 public:
  // `features` >= 1, `exponent` >= 0.
  FeatureDraw(uint64_t features, double exponent);

  // `unit` in [0, 1).
  uint32_t At(double unit) const;

 private:
  const uint64_t features_;
  const double power_;  // 1 - exponent; 0 stands for the logarithm
  double span_;         // of the distribution function
};

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_DRAW_H_
