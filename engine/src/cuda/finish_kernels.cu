// What goes before and after the sums: long rows, parts of sums, and links that look at all outputs of a row.

#include "cuda/device_code.cuh"
#include "cuda/normalise.cuh"

namespace widelane::cuda {
namespace {

// Calls with each row of the step and each output, spread over the grid; rows by the list of long ones, if any.
template <typename Use>
__device__ __forceinline__ void ForEachResult(const ScoreCall& call, bool long_rows, const Use& use) {
  const ScoreArguments& a = call.input;
  const uint64_t items = static_cast<uint64_t>(long_rows ? a.cut.long_rows : a.rows) * a.outputs;
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < items; i += stride) {
    const auto nth = static_cast<uint32_t>(i / a.outputs);
    const uint32_t row = long_rows ? a.long_rows[nth] - a.first_row : nth;
    if (row < a.rows) use(row, static_cast<uint32_t>(i % a.outputs));  // else it is of another step
  }
}

__device__ __forceinline__ size_t PlaceOf(const ScoreCall& call, uint32_t row, uint32_t output) {
  return static_cast<size_t>(row) * call.input.outputs + output;
}

__device__ __forceinline__ double ScaledRaw(const ScoreArguments& a, uint32_t row, uint32_t output, int64_t sum) {
  const int64_t whole = sum + ContextSum(a, row, output);
  return numeric::RawSum(whole, GridOfRow(a, row).step, __ldg(a.scale + output), __ldg(a.bias + output));
}

__global__ void __launch_bounds__(kBlockThreads) ZeroLongRows(const ScoreCall call) {
  ForEachResult(call, true, [&](uint32_t row, uint32_t output) { call.long_sums[PlaceOf(call, row, output)] = 0; });
}

// A raw sum may take the place of its sum.
__global__ void __launch_bounds__(kBlockThreads) FinishLongRows(const ScoreCall call) {
  ForEachResult(call, true, [&](uint32_t row, uint32_t output) {
    const size_t at = PlaceOf(call, row, output);
    WriteRaw(call, at, ScaledRaw(call.input, row, output, call.long_sums[at]));
  });
}

__global__ void __launch_bounds__(kBlockThreads) AddPartials(const ScoreCall call, const Partials partials) {
  ForEachResult(call, false, [&](uint32_t row, uint32_t output) {
    const size_t at = PlaceOf(call, row, output);
    int64_t sum = 0;
    for (uint32_t p = 0; p < partials.count; ++p) sum += partials.sums[p][at];
    WriteRaw(call, at, ScaledRaw(call.input, row, output, sum));
  });
}

__global__ void __launch_bounds__(kBlockThreads) Pointwise(const ScoreCall call, const double* raw) {
  ForEachResult(call, false, [&](uint32_t row, uint32_t output) {
    const size_t at = PlaceOf(call, row, output);
    WriteRaw(call, at, raw[at]);
  });
}

// Scores of links that look at all outputs of a row, from its raw sums. kWholeBlock: a block for each row.
template <bool kWholeBlock>
__global__ void __launch_bounds__(kBlockThreads)
    Normalise(const ScoreCall call, const double* all_raw, float* all_scores, const uint32_t row_threads) {
  const ScoreArguments& a = call.input;
  const uint32_t row = blockIdx.x * (kBlockThreads / row_threads) + threadIdx.x / row_threads;
  const uint32_t first = threadIdx.x % row_threads;
  // Threads without a row go along with no outputs, because the exchange between lanes needs whole warps.
  const uint32_t outputs = row < a.rows ? a.outputs : 0;
  const double* raw = all_raw + static_cast<size_t>(row) * a.outputs;
  float* scores = all_scores + static_cast<size_t>(row) * a.outputs;

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

uint32_t BlocksFor(const ScoreCall& call, uint32_t rows) { return StrideBlocks(uint64_t{rows} * call.input.outputs); }

}  // namespace

cudaError_t LaunchZeroLongRows(const ScoreCall& call, cudaStream_t stream) {
  ZeroLongRows<<<BlocksFor(call, call.input.cut.long_rows), kBlockThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

cudaError_t LaunchFinishLongRows(const ScoreCall& call, cudaStream_t stream) {
  FinishLongRows<<<BlocksFor(call, call.input.cut.long_rows), kBlockThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

cudaError_t LaunchAddPartials(const ScoreCall& call, const Partials& partials, cudaStream_t stream) {
  AddPartials<<<BlocksFor(call, call.input.rows), kBlockThreads, 0, stream>>>(call, partials);
  return cudaGetLastError();
}

cudaError_t LaunchPointwise(const ScoreCall& call, const double* raw, cudaStream_t stream) {
  Pointwise<<<BlocksFor(call, call.input.rows), kBlockThreads, 0, stream>>>(call, raw);
  return cudaGetLastError();
}

cudaError_t LaunchNormalise(const ScoreCall& call, const double* raw, float* scores, cudaStream_t stream) {
  const uint32_t row_threads = NormaliseRowThreads(call.input.outputs);
  const uint32_t blocks = NormaliseBlocks(call.input.rows, row_threads);
  if (row_threads == kBlockThreads) {
    Normalise<true><<<blocks, kBlockThreads, 0, stream>>>(call, raw, scores, row_threads);
  } else {
    Normalise<false><<<blocks, kBlockThreads, 0, stream>>>(call, raw, scores, row_threads);
  }
  return cudaGetLastError();
}

cudaError_t PrepareFinish() {
  for (const cudaError_t code :
       {PrepareKernel(ZeroLongRows), PrepareKernel(FinishLongRows), PrepareKernel(AddPartials),
        PrepareKernel(Pointwise), PrepareKernel(Normalise<false>), PrepareKernel(Normalise<true>)}) {
    if (code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

}  // namespace widelane::cuda
