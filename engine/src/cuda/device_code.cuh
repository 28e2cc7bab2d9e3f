// What the kernels share: loads of rows, entries and weights, the two ways to add up terms, and the end of a sum.

#ifndef WIDELANE_ENGINE_SRC_CUDA_DEVICE_CODE_CUH_
#define WIDELANE_ENGINE_SRC_CUDA_DEVICE_CODE_CUH_

#include <cstdint>

#include "cuda/score_call.h"
#include "numeric.h"

namespace widelane::cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

// How stored weights become floats; all exact.
__device__ __forceinline__ float FloatOfHalf(uint16_t half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
}
struct Float32Weights {
  using Stored = float;
  static constexpr bool kScaled = false;
  static __device__ __forceinline__ float ToFloat(float stored) { return stored; }
};
struct Float16Weights {
  using Stored = uint16_t;
  static constexpr bool kScaled = false;
  static __device__ __forceinline__ float ToFloat(uint16_t stored) { return FloatOfHalf(stored); }
};
struct Bfloat16Weights {
  using Stored = uint16_t;
  static constexpr bool kScaled = false;
  static __device__ __forceinline__ float ToFloat(uint16_t stored) { return numeric::FromBfloat16(stored); }
};
struct Int8Weights {
  using Stored = signed char;
  static constexpr bool kScaled = true;
  static __device__ __forceinline__ float ToFloat(signed char stored) { return static_cast<float>(stored); }
};

// Terms added up in single precision arithmetic; at most numeric::kMaxSplitTerms of them.
struct SplitTerms {
  using Scaled = float;
  using Sum = numeric::SplitSums;
  struct Scale {
    numeric::SplitScale scale;
  };
  static __device__ __forceinline__ Scale ScaleOf(const numeric::Grid& grid) { return {numeric::SplitScaleFor(grid)}; }
  static __device__ __forceinline__ float ScaledValue(float value, const Scale& scale) {
    return numeric::SplitValue(value, scale.scale);
  }
  static __device__ __forceinline__ void Add(float weight, float scaled, Sum& sum) {
    numeric::AddSplitTerm(weight, scaled, sum);
  }
  static __device__ __forceinline__ int64_t Total(const Sum& sum, uint32_t count) {
    return numeric::SplitSum(sum, count);
  }
};

// The same in double precision, for models whose weights are beyond what may be split.
struct DoubleTerms {
  using Scaled = double;
  struct Sum {
    int64_t steps = 0;
  };
  struct Scale {
    double inverse_step;
  };
  static __device__ __forceinline__ Scale ScaleOf(const numeric::Grid& grid) { return {grid.inverse_step}; }
  static __device__ __forceinline__ double ScaledValue(float value, const Scale& scale) {
    return static_cast<double>(value) * scale.inverse_step;
  }
  static __device__ __forceinline__ void Add(float weight, double scaled, Sum& sum) {
    sum.steps += numeric::Term(static_cast<double>(weight), scaled);
  }
  static __device__ __forceinline__ void Flush(Sum&) {}
  static __device__ __forceinline__ int64_t Total(const Sum& sum, uint32_t) { return sum.steps; }
};

// Entries of a row: from `begin`, as indices and values number them.
struct RowEntries {
  uint32_t begin;
  uint32_t length;
};

__device__ __forceinline__ uint32_t LengthOf(const ScoreArguments& a, uint32_t row) {
  return a.lengths8 != nullptr ? __ldg(a.lengths8 + row) : __ldg(a.lengths16 + row);
}

__device__ __forceinline__ bool HasLengths(const ScoreArguments& a) {
  return a.lengths8 != nullptr || a.lengths16 != nullptr;
}

__device__ __forceinline__ RowEntries EntriesFromRowBegin(const ScoreArguments& a, uint32_t row) {
  const uint32_t begin = __ldg(a.row_begin + row);
  return {begin - a.first_entry, __ldg(a.row_begin + row + 1) - begin};
}

__device__ __forceinline__ RowEntries UniformEntries(const ScoreArguments& a, uint32_t row) {
  return {a.uniform_begin - a.first_entry + row * a.uniform_length, a.uniform_length};
}

// Each lane gets a row of the step's group `group`: row group * kGroupRows + lane; none where that is no row of the
// step. Called by all lanes of a warp.
__device__ __forceinline__ RowEntries LaneEntries(const ScoreArguments& a, uint32_t group) {
  const uint32_t lane = threadIdx.x % kWarp;
  const bool here = group * kGroupRows + lane < a.rows;
  const uint32_t first = a.first_row + group * kGroupRows;
  if (a.uniform_length > 0) return here ? UniformEntries(a, first + lane) : RowEntries{0, 0};
  if (!HasLengths(a)) return here ? EntriesFromRowBegin(a, first + lane) : RowEntries{0, 0};
  const uint32_t length = here ? LengthOf(a, first + lane) : 0;
  uint32_t end = length;  // becomes the sum up to this lane
#pragma unroll
  for (uint32_t offset = 1; offset < kWarp; offset *= 2) {
    const uint32_t below = __shfl_up_sync(kAllLanes, end, offset);
    if (lane >= offset) end += below;
  }
  return {__ldg(a.group_begin + first / kGroupRows) - a.first_entry + end - length, length};
}
static_assert(kGroupRows == kWarp, "a lane for each row of a group");

// Adds over all lanes of a warp, all of which get the sum.
__device__ __forceinline__ uint32_t WarpSum(uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(kAllLanes, value);
#else
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
#endif
}

// The entries of one row of the step, the same for all lanes of a warp, which all call it.
__device__ __forceinline__ RowEntries EntriesOfRow(const ScoreArguments& a, uint32_t step_row) {
  const uint32_t row = a.first_row + step_row;
  if (a.uniform_length > 0) return UniformEntries(a, row);
  if (!HasLengths(a)) return EntriesFromRowBegin(a, row);
  const uint32_t lane = threadIdx.x % kWarp;
  const uint32_t before = lane < row % kGroupRows ? LengthOf(a, row - row % kGroupRows + lane) : 0;
  return {__ldg(a.group_begin + row / kGroupRows) - a.first_entry + WarpSum(before), LengthOf(a, row)};
}

// A feature's place among the weights; that of the zero feature for those that are not there.
__device__ __forceinline__ uint32_t LocalFeature(const ScoreArguments& a, uint32_t feature) {
  return min(feature - a.first_feature, a.features);
}

__device__ __forceinline__ uint32_t FeatureOf(const ScoreArguments& a, uint32_t entry) {
  return LocalFeature(a, a.indices16 != nullptr ? __ldg(a.indices16 + entry) : __ldg(a.indices32 + entry));
}

__device__ __forceinline__ bool HasValues(const ScoreArguments& a) {
  return a.values16 != nullptr || a.values32 != nullptr;
}

__device__ __forceinline__ float ValueOf(const ScoreArguments& a, uint32_t entry) {
  if (a.values32 != nullptr) return __ldg(a.values32 + entry);
  return a.values16 != nullptr ? FloatOfHalf(__ldg(a.values16 + entry)) : 1.0F;
}

// Offset of a feature's first weight.
__device__ __forceinline__ size_t WeightOffset(const ScoreArguments& a, uint32_t local_feature) {
  return static_cast<size_t>(local_feature) * a.outputs;
}

__device__ __forceinline__ numeric::Grid GridOfRow(const ScoreArguments& a, uint32_t step_row) {
  return numeric::GridFor(a.max_weight, a.row_max == nullptr ? 1.0F : __ldg(a.row_max + a.first_row + step_row));
}

// The sums of a row's context, where there are contexts.
__device__ __forceinline__ const int64_t* ContextOf(const ScoreArguments& a, uint32_t step_row) {
  return a.context_sums + static_cast<size_t>(__ldg(a.context_line + a.first_row + step_row)) * a.outputs;
}

// What a row's context adds to its sum of one output.
__device__ __forceinline__ int64_t ContextSum(const ScoreArguments& a, uint32_t step_row, uint32_t output) {
  return a.context_sums == nullptr ? 0 : __ldg(ContextOf(a, step_row) + output);
}

// The raw sum of one output.
template <typename Weights>
__device__ __forceinline__ double RawOf(const ScoreArguments& a, uint32_t output, int64_t sum, double step) {
  const double scale = Weights::kScaled ? __ldg(a.scale + output) : 1.0;
  return numeric::RawSum(sum, step, scale, __ldg(a.bias + output));
}

// Writes what is wanted of one raw sum.
__device__ __forceinline__ void WriteRaw(const ScoreCall& call, size_t at, double raw) {
  if (call.raw != nullptr) call.raw[at] = raw;
  if (call.scores != nullptr) call.scores[at] = static_cast<float>(numeric::PointwiseLink(call.input.link, raw));
}

// Writes what is wanted of one sum.
template <typename Weights>
__device__ __forceinline__ void FinishSum(const ScoreCall& call, uint32_t step_row, uint32_t output, int64_t sum,
                                          double step) {
  const size_t at = static_cast<size_t>(step_row) * call.input.outputs + output;
  if (call.partial != nullptr) {
    call.partial[at] = sum;
  } else {
    const int64_t whole = sum + ContextSum(call.input, step_row, output);
    WriteRaw(call, at, RawOf<Weights>(call.input, output, whole, step));
  }
}

// Adds a piece's sum to its long row's. Integers: whatever the order, the total is the same.
__device__ __forceinline__ void AddToLongSum(const ScoreCall& call, uint32_t step_row, uint32_t output, int64_t sum) {
  int64_t* at = call.long_sums + static_cast<size_t>(step_row) * call.input.outputs + output;
  atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(sum));
}

// Adds over the lanes of a warp, `lanes` in a row, whose places differ in the bits from `first` up.
__device__ __forceinline__ int64_t SumOverLanes(int64_t sum, uint32_t lanes, uint32_t first) {
  for (uint32_t offset = lanes / 2; offset >= first; offset /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, static_cast<int>(offset));
  }
  return sum;
}

template <typename Kernel>
cudaError_t PrepareKernel(Kernel* kernel) {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, kernel);
}

// The kernels take a call by value and come in variants; these say which one.
using CallKernel = void (*)(ScoreCall);

inline cudaError_t LaunchCall(CallKernel kernel, dim3 blocks, uint32_t threads, size_t shared_bytes,
                              const ScoreCall& call, cudaStream_t stream) {
  kernel<<<blocks, threads, shared_bytes, stream>>>(call);
  return cudaGetLastError();
}

inline constexpr WeightType kWeightTypes[] = {WeightType::kFloat32, WeightType::kFloat16, WeightType::kBfloat16,
                                              WeightType::kInt8};

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_DEVICE_CODE_CUH_
