// What the kernels share: loads of entries and weights, and the end of a sum.

#ifndef WIDELANE_ENGINE_SRC_CUDA_DEVICE_CODE_CUH_
#define WIDELANE_ENGINE_SRC_CUDA_DEVICE_CODE_CUH_

#include <cstdint>

#include "cuda/kernels.h"
#include "numeric.h"

namespace widelane::cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

// How weights of each type become doubles; all exact.
struct Float32Weights {
  using Stored = float;
  static __device__ __forceinline__ double Load(const float* at) { return static_cast<double>(__ldg(at)); }
};
struct Float16Weights {
  using Stored = uint16_t;
  static __device__ __forceinline__ double Load(const uint16_t* at) {
    return static_cast<double>(numeric::FromFloat16(__ldg(at)));
  }
};
struct Bfloat16Weights {
  using Stored = uint16_t;
  static __device__ __forceinline__ double Load(const uint16_t* at) {
    return static_cast<double>(numeric::FromBfloat16(__ldg(at)));
  }
};
struct Int8Weights {
  using Stored = signed char;
  static __device__ __forceinline__ double Load(const signed char* at) { return static_cast<double>(__ldg(at)); }
};

template <typename Index>
__device__ __forceinline__ const Index* IndicesOf(const ScoreArguments& a);
template <>
__device__ __forceinline__ const uint16_t* IndicesOf<uint16_t>(const ScoreArguments& a) {
  return a.indices16;
}
template <>
__device__ __forceinline__ const uint32_t* IndicesOf<uint32_t>(const ScoreArguments& a) {
  return a.indices32;
}

__device__ __forceinline__ numeric::Grid GridOfRow(const ScoreArguments& a, uint32_t row) {
  return numeric::GridFor(a.max_weight, a.row_max == nullptr ? 1.0F : __ldg(a.row_max + row));
}

// value * inverse_step of one entry; exact, since inverse_step is a power of two.
__device__ __forceinline__ double ScaledValue(const ScoreArguments& a, uint32_t entry, double inverse_step) {
  return a.values == nullptr ? inverse_step : static_cast<double>(__ldg(a.values + entry)) * inverse_step;
}

// Offset of a feature's first weight.
__device__ __forceinline__ size_t WeightOffset(const ScoreArguments& a, uint32_t feature) {
  return static_cast<size_t>(feature) * a.outputs;
}

// Writes what is wanted of one sum.
__device__ __forceinline__ void FinishSum(const ScoreArguments& a, uint32_t row, uint32_t output, int64_t sum,
                                          double step) {
  const double raw = numeric::RawSum(sum, step, __ldg(a.scale + output), __ldg(a.bias + output));
  const size_t at = static_cast<size_t>(row) * a.outputs + output;
  if (a.raw != nullptr) a.raw[at] = raw;
  if (a.scores != nullptr) a.scores[at] = static_cast<float>(numeric::PointwiseLink(a.link, raw));
}

// Adds a piece's sum to its long row's. Integers: whatever the order, the total is the same.
__device__ __forceinline__ void AddToLongSum(const ScoreArguments& a, uint32_t long_row, uint32_t output, int64_t sum) {
  int64_t* at = a.long_sums + static_cast<size_t>(long_row) * a.outputs + output;
  atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(sum));
}

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_DEVICE_CODE_CUH_
