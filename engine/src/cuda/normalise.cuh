// Combining numbers of a row over its threads, for links that look at all outputs.

#ifndef WIDELANE_ENGINE_SRC_CUDA_NORMALISE_CUH_
#define WIDELANE_ENGINE_SRC_CUDA_NORMALISE_CUH_

#include <cstdint>

#include "cuda/device_code.cuh"

namespace widelane::cuda {

struct Larger {
  __device__ double operator()(double a, double b) const { return a > b ? a : b; }
};
struct Sum {
  __device__ int64_t operator()(int64_t a, int64_t b) const { return a + b; }
};

// Combines over the threads of a row, all of which get the result: `threads` neighbours within a warp, or the whole
// block. Both operations give the same bits in any order. Called by all threads of the block; with kWholeBlock once in
// a kernel for each type.
template <bool kWholeBlock, typename T, typename Operation>
__device__ __forceinline__ T Combine(T value, uint32_t threads, Operation operation) {
  const uint32_t lanes = kWholeBlock ? kWarp : threads;
  for (uint32_t offset = lanes / 2; offset > 0; offset /= 2) {
    value = operation(value, __shfl_xor_sync(kAllLanes, value, static_cast<int>(offset)));
  }
  if constexpr (kWholeBlock) {
    __shared__ T of_warp[kBlockThreads / kWarp];
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = of_warp[0];
    for (uint32_t warp = 1; warp < blockDim.x / kWarp; ++warp) value = operation(value, of_warp[warp]);
  }
  return value;
}

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_NORMALISE_CUH_
