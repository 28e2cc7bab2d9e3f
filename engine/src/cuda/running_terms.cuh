// Terms in single precision with one operation less than numeric::AddSplitTerm, for threads that add up many: the sum
// of the high parts stays within its rounder. README.md beside this shows that the bits are the same.

#ifndef WIDELANE_ENGINE_SRC_CUDA_RUNNING_TERMS_CUH_
#define WIDELANE_ENGINE_SRC_CUDA_RUNNING_TERMS_CUH_

#include <cstdint>

#include "cuda/device_code.cuh"

namespace widelane::cuda {

// As SplitTerms, but Flush is to be called after kMostTerms terms, zeros included, before any further one.
struct RunningTerms : SplitTerms {
  static constexpr uint32_t kMostTerms = 64;
  static constexpr float kRounder = 192.0F;                // 1.5 x 2^7; from 2^7 to 2^8 floats are 2^-16 apart
  static constexpr uint32_t kRounderBits = 0x43400000u;    // of kRounder
  static constexpr int64_t kHighSteps = int64_t{1} << 22;  // 2^-16 in steps of 2^-38

  struct Sum {
    float high = kRounder;
    uint32_t low = 0;      // bit patterns, as in numeric::SplitSums
    uint32_t flushed = 0;  // of `high`, in multiples of 2^-16
  };

  static __device__ __forceinline__ void Add(float weight, float scaled, Sum& sum) {
    const float high = numeric::FmaFloat(weight, scaled, sum.high);
    const float rest = sum.high + numeric::kLowRounder - high;  // both are exact
    sum.high = high;
    sum.low += numeric::FloatBitsOf(numeric::FmaFloat(weight, scaled, rest));
  }

  static __device__ __forceinline__ void Flush(Sum& sum) {
    sum.flushed += numeric::FloatBitsOf(sum.high) - kRounderBits;
    sum.high = kRounder;
  }

  // Of `count` terms, zeros included, at most numeric::kMaxSplitTerms.
  static __device__ __forceinline__ int64_t Total(const Sum& sum, uint32_t count) {
    const auto high = static_cast<int32_t>(sum.flushed + numeric::FloatBitsOf(sum.high) - kRounderBits);
    const auto low = static_cast<int32_t>(sum.low - count * numeric::kLowRounderBits);
    return high * kHighSteps + low;
  }
};

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_RUNNING_TERMS_CUH_
