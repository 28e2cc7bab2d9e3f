#include "cuda/cusparse_kernels.h"
#include "cuda/device_code.cuh"
#include "cuda/launch_plan.h"
#include "numeric.h"

namespace widelane::cuda {
namespace {

// Calls body(i) for each i below `count`.
template <typename Body>
__global__ void ForEach(size_t count, Body body) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) body(i);
}

template <typename Body>
cudaError_t LaunchForEach(size_t count, const Body& body, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  ForEach<<<StrideBlocks(count), kBlockThreads, 0, stream>>>(count, body);
  return cudaGetLastError();
}

struct WidenFloat16 {
  const uint16_t* from;
  float* to;
  __device__ void operator()(size_t i) const { to[i] = numeric::FromFloat16(from[i]); }
};
struct WidenBfloat16 {
  const uint16_t* from;
  float* to;
  __device__ void operator()(size_t i) const { to[i] = numeric::FromBfloat16(from[i]); }
};
// Copies and converts.
template <typename From, typename To>
struct Convert {
  const From* from;
  To* to;
  __device__ void operator()(size_t i) const { to[i] = static_cast<To>(from[i]); }
};
struct FillOnes {
  float* to;
  __device__ void operator()(size_t i) const { to[i] = 1.0F; }
};
struct RebaseOffsets {
  const uint32_t* row_begin;
  int32_t* to;
  __device__ void operator()(size_t i) const { to[i] = static_cast<int32_t>(row_begin[i] - row_begin[0]); }
};
struct RawFromSums {
  ScoreArguments a;
  const float* sums;
  double* raw;
  double* copy;
  __device__ void operator()(size_t i) const {
    const auto row = static_cast<uint32_t>(i / a.outputs);
    const auto k = static_cast<uint32_t>(i % a.outputs);
    const double of_context = static_cast<double>(ContextSum(a, row, k)) * GridOfRow(a, row).step;
    raw[i] = numeric::Fma(static_cast<double>(sums[i]) + of_context, a.scale[k], a.bias[k]);
    if (copy != nullptr) copy[i] = raw[i];
  }
};

}  // namespace

cudaError_t LaunchWidenWeights(WeightType type, const void* from, size_t count, float* to, cudaStream_t stream) {
  switch (type) {
    case WeightType::kFloat32:
      return LaunchForEach(count, Convert<float, float>{static_cast<const float*>(from), to}, stream);
    case WeightType::kFloat16:
      return LaunchForEach(count, WidenFloat16{static_cast<const uint16_t*>(from), to}, stream);
    case WeightType::kBfloat16:
      return LaunchForEach(count, WidenBfloat16{static_cast<const uint16_t*>(from), to}, stream);
    case WeightType::kInt8:
      return LaunchForEach(count, Convert<int8_t, float>{static_cast<const int8_t*>(from), to}, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t LaunchWidenIndices(const uint16_t* from, size_t count, int32_t* to, cudaStream_t stream) {
  return LaunchForEach(count, Convert<uint16_t, int32_t>{from, to}, stream);
}

cudaError_t LaunchWidenValues(const uint16_t* from, size_t count, float* to, cudaStream_t stream) {
  return LaunchForEach(count, WidenFloat16{from, to}, stream);
}

cudaError_t LaunchFillOnes(size_t count, float* to, cudaStream_t stream) {
  return LaunchForEach(count, FillOnes{to}, stream);
}

cudaError_t LaunchRebaseOffsets(const uint32_t* row_begin, size_t count, int32_t* to, cudaStream_t stream) {
  return LaunchForEach(count, RebaseOffsets{row_begin, to}, stream);
}

cudaError_t LaunchRawFromSums(const ScoreArguments& arguments, const float* sums, double* raw, double* copy,
                              cudaStream_t stream) {
  const size_t count = static_cast<size_t>(arguments.rows) * arguments.outputs;
  return LaunchForEach(count, RawFromSums{arguments, sums, raw, copy}, stream);
}

}  // namespace widelane::cuda
