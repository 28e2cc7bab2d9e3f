// Rows of models with up to kMaxNarrowOutputs outputs, which stand side by side in a warp.

#include "cuda/device_code.cuh"

namespace widelane::cuda {
namespace {

// Entries of a lane whose loads are under way at once.
constexpr uint32_t kBatch = 4;

// Sum of one lane's entries. Where the row ends before a batch does, the lane adds zeros, so that no branch keeps loads
// apart.
template <typename Weights, typename Terms>
__device__ __forceinline__ int64_t SumEntries(const ScoreArguments& a, const NarrowSlot& slot, const RowEntries& row,
                                              const typename Terms::Scale& scale) {
  // Lanes beyond the outputs read the last one's weights and are dropped later.
  const auto* weights = static_cast<const typename Weights::Stored*>(a.weights) + min(slot.output, a.outputs - 1);
  typename Terms::Sum sum;
  uint32_t count = 0;
  for (uint32_t base = slot.entry; base < row.length; base += kBatch * slot.stride) {
#pragma unroll
    for (uint32_t u = 0; u < kBatch; ++u) {
      const uint32_t i = base + u * slot.stride;
      const bool here = i < row.length;
      const uint32_t feature = here ? FeatureOf(a, row.begin + i) : a.features;
      const float value = here ? ValueOf(a, row.begin + i) : 0.0F;
      Terms::Add(Weights::ToFloat(__ldg(weights + WeightOffset(a, feature))), Terms::ScaledValue(value, scale), sum);
    }
    count += kBatch;
  }
  return Terms::Total(sum, count);
}

// A warp, one row after the other of a part of a group. Each entry lane keeps one row's sums, so that the whole warp
// finishes several rows at once.
template <typename Weights, typename Terms>
__global__ void __launch_bounds__(kBlockThreads) SumNarrow(const ScoreCall call) {
  const ScoreArguments& a = call.input;
  const uint32_t warp_rows = call.plan.warp_rows;
  const uint32_t first = (blockIdx.x * (kBlockThreads / kWarp) + threadIdx.x / kWarp) * warp_rows;
  if (first >= a.rows) return;  // the whole warp
  const uint32_t group = first / kGroupRows;
  const RowEntries own = LaneEntries(a, group);
  const NarrowSlot slot = SlotOf(call.plan.output_lanes_log2, kWarp, threadIdx.x % kWarp);
  const uint32_t output_lanes = 1U << call.plan.output_lanes_log2;

  for (uint32_t done = 0; done < warp_rows; done += slot.stride) {
    int64_t kept = 0;
    bool here = false;
    for (uint32_t i = 0; i < min(slot.stride, warp_rows - done); ++i) {
      const int lane = static_cast<int>((first + done + i) % kWarp);
      const RowEntries row = {__shfl_sync(kAllLanes, own.begin, lane), __shfl_sync(kAllLanes, own.length, lane)};
      if (first + done + i >= a.rows || row.length > call.row_limit) continue;
      const typename Terms::Scale scale = Terms::ScaleOf(GridOfRow(a, first + done + i));
      const int64_t sum = SumOverLanes(SumEntries<Weights, Terms>(a, slot, row, scale), kWarp, output_lanes);
      if (slot.entry == i) {
        kept = sum;
        here = slot.output < a.outputs;
      }
    }
    const uint32_t row = first + done + slot.entry;
    if (here) FinishSum<Weights>(call, row, slot.output, kept, GridOfRow(a, row).step);
  }
}

// A block, one piece of a long row.
template <typename Weights, typename Terms>
__global__ void __launch_bounds__(kBlockThreads) SumNarrowPieces(const ScoreCall call) {
  __shared__ int64_t warp_sums[kBlockThreads / kWarp][kWarp];
  const ScoreArguments& a = call.input;
  const Piece piece = a.pieces[blockIdx.x];
  const uint32_t row = piece.row - a.first_row;
  if (row >= a.rows) return;  // of another step; the same for the whole block
  const NarrowSlot slot = SlotOf(call.plan.output_lanes_log2, kBlockThreads, threadIdx.x);
  const typename Terms::Scale scale = Terms::ScaleOf(GridOfRow(a, row));
  const int64_t sum = SumEntries<Weights, Terms>(a, slot, {piece.begin, piece.length}, scale);
  // Lane l of each warp ends with the warp's sum for output l % output lanes.
  warp_sums[threadIdx.x / kWarp][threadIdx.x % kWarp] = SumOverLanes(sum, kWarp, 1U << call.plan.output_lanes_log2);
  __syncthreads();
  if (threadIdx.x >= a.outputs) return;
  int64_t total = 0;
  for (uint32_t warp = 0; warp < kBlockThreads / kWarp; ++warp) total += warp_sums[warp][threadIdx.x];
  AddToLongSum(call, row, threadIdx.x, total);
}

struct Kernels {
  CallKernel rows;
  CallKernel pieces;
};

template <typename Weights>
Kernels KernelsFor(bool split) {
  if (split) return {SumNarrow<Weights, SplitTerms>, SumNarrowPieces<Weights, SplitTerms>};
  return {SumNarrow<Weights, DoubleTerms>, SumNarrowPieces<Weights, DoubleTerms>};
}

Kernels KernelsFor(WeightType type, bool split) {
  switch (type) {
    case WeightType::kFloat32:
      return KernelsFor<Float32Weights>(split);
    case WeightType::kFloat16:
      return KernelsFor<Float16Weights>(split);
    case WeightType::kBfloat16:
      return KernelsFor<Bfloat16Weights>(split);
    case WeightType::kInt8:
      break;
  }
  return KernelsFor<Int8Weights>(split);
}

Kernels KernelsFor(const ScoreArguments& a) { return KernelsFor(a.weight_type, numeric::MaySplit(a.max_weight)); }

}  // namespace

cudaError_t LaunchNarrow(const ScoreCall& call, cudaStream_t stream) {
  return LaunchCall(KernelsFor(call.input).rows, call.plan.blocks, kBlockThreads, 0, call, stream);
}

cudaError_t LaunchNarrowPieces(const ScoreCall& call, cudaStream_t stream) {
  return LaunchCall(KernelsFor(call.input).pieces, call.input.cut.pieces, kBlockThreads, 0, call, stream);
}

cudaError_t PrepareNarrow() {
  for (const WeightType type : kWeightTypes) {
    for (const bool split : {false, true}) {
      const Kernels kernels = KernelsFor(type, split);
      if (const cudaError_t code = PrepareKernel(kernels.rows); code != cudaSuccess) return code;
      if (const cudaError_t code = PrepareKernel(kernels.pieces); code != cudaSuccess) return code;
    }
  }
  return cudaSuccess;
}

}  // namespace widelane::cuda
