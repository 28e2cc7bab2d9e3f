// What follows the sums: long rows' raw sums and scores, and links that look at all outputs of a row.

#include "cuda/device_code.cuh"

namespace widelane::cuda {
namespace {

__global__ void __launch_bounds__(kBlockThreads) FinishLongRows(const ScoreArguments a) {
  const uint64_t items = static_cast<uint64_t>(a.cut.long_rows) * a.outputs;
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < items; i += stride) {
    const uint32_t row = a.long_rows[i / a.outputs];
    FinishSum(a, row, static_cast<uint32_t>(i % a.outputs), a.long_sums[i], GridOfRow(a, row).step);
  }
}

struct Larger {
  __device__ double operator()(double a, double b) const { return a > b ? a : b; }
};
struct Sum {
  __device__ int64_t operator()(int64_t a, int64_t b) const { return a + b; }
};

// Combines over the threads of a row, all of which get the result: `threads` neighbours within a warp, or the whole
// block. Both operations give the same bits in any order. Called by all threads of the block.
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
    for (uint32_t warp = 1; warp < kBlockThreads / kWarp; ++warp) value = operation(value, of_warp[warp]);
  }
  return value;
}

// Scores of links that look at all outputs of a row, from its raw sums. kWholeBlock: a block for each row.
template <bool kWholeBlock>
__global__ void __launch_bounds__(kBlockThreads) Normalise(const ScoreArguments a, const uint32_t row_threads) {
  const uint32_t row = blockIdx.x * (kBlockThreads / row_threads) + threadIdx.x / row_threads;
  const uint32_t first = threadIdx.x % row_threads;
  // Threads without a row go along with no outputs, because the exchange between lanes needs whole warps.
  const uint32_t outputs = row < a.rows ? a.outputs : 0;
  const double* raw = a.raw + static_cast<size_t>(row) * a.outputs;
  float* scores = a.scores + static_cast<size_t>(row) * a.outputs;

  double max = -1.7976931348623157e308;  // the least double
  for (uint32_t k = first; k < outputs; k += row_threads) max = Larger()(max, raw[k]);
  max = Combine<kWholeBlock>(max, row_threads, Larger());

  int64_t steps = 0;
  for (uint32_t k = first; k < outputs; k += row_threads) {
    steps += numeric::ShareSteps(numeric::Share(a.link, raw[k], max));
  }
  steps = Combine<kWholeBlock>(steps, row_threads, Sum());

  // The share is computed again: that is cheaper than a place to keep it.
  for (uint32_t k = first; k < outputs; k += row_threads) {
    scores[k] = static_cast<float>(numeric::Normalised(numeric::Share(a.link, raw[k], max), steps));
  }
}

template <typename Kernel>
cudaError_t Prepare(Kernel* kernel) {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, kernel);
}

}  // namespace

cudaError_t LaunchFinishLongRows(const ScoreArguments& arguments, cudaStream_t stream) {
  const uint32_t blocks = StrideBlocks(uint64_t{arguments.cut.long_rows} * arguments.outputs);
  FinishLongRows<<<blocks, kBlockThreads, 0, stream>>>(arguments);
  return cudaGetLastError();
}

cudaError_t LaunchNormalise(const ScoreArguments& arguments, cudaStream_t stream) {
  const uint32_t row_threads = NormaliseRowThreads(arguments.outputs);
  const uint32_t blocks = NormaliseBlocks(arguments.rows, row_threads);
  if (row_threads == kBlockThreads) {
    Normalise<true><<<blocks, kBlockThreads, 0, stream>>>(arguments, row_threads);
  } else {
    Normalise<false><<<blocks, kBlockThreads, 0, stream>>>(arguments, row_threads);
  }
  return cudaGetLastError();
}

cudaError_t PrepareFinish() {
  if (const cudaError_t code = Prepare(FinishLongRows); code != cudaSuccess) return code;
  if (const cudaError_t code = Prepare(Normalise<false>); code != cudaSuccess) return code;
  return Prepare(Normalise<true>);
}

}  // namespace widelane::cuda
