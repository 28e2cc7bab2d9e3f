// The kernels that sum rows: narrow models, whose outputs fit side by side in a warp, and wide ones.

#include "cuda/device_code.cuh"

namespace widelane::cuda {
namespace {

// Sum of one thread's entries among `length` from `begin`. Only entries' loads depend on memory, so that unrolled they
// overlap.
template <typename Weights, typename Index>
__device__ __forceinline__ int64_t SumEntries(const ScoreArguments& a, const NarrowSlot& slot, uint32_t begin,
                                              uint32_t length, double inverse_step) {
  // Threads beyond the outputs read the last one's weights and are dropped later: cheaper than a branch around each
  // load.
  const uint32_t output = min(slot.output, a.outputs - 1);
  const Index* indices = IndicesOf<Index>(a) + begin;
  const auto* weights = static_cast<const typename Weights::Stored*>(a.weights) + output;
  int64_t sum = 0;
#pragma unroll 4
  for (uint32_t i = slot.entry; i < length; i += slot.stride) {
    const uint32_t feature = __ldg(indices + i);
    sum += numeric::Term(Weights::Load(weights + WeightOffset(a, feature)), ScaledValue(a, begin + i, inverse_step));
  }
  return sum;
}

// Adds over the lanes, `lanes` in a row, that hold the same output. All lanes of the warp take part; all get the
// result.
__device__ __forceinline__ int64_t SumOverEntryLanes(int64_t sum, uint32_t lanes, uint32_t output_lanes_log2) {
  for (uint32_t offset = lanes / 2; offset >> output_lanes_log2 != 0; offset /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, static_cast<int>(offset));
  }
  return sum;
}

// One block, one piece of a long row.
template <typename Weights, typename Index>
__device__ __forceinline__ void SumNarrowPiece(const ScoreArguments& a, const Piece& piece) {
  __shared__ int64_t warp_sums[kBlockThreads / kWarp][kWarp];
  const NarrowSlot slot = SlotInPiece(a.plan, threadIdx.x);
  const double inverse_step = GridOfRow(a, piece.row).inverse_step;
  const int64_t sum = SumEntries<Weights, Index>(a, slot, piece.begin, piece.length, inverse_step);
  // Lane l of each warp ends with the warp's sum for output l % output_lanes.
  warp_sums[threadIdx.x / kWarp][threadIdx.x % kWarp] = SumOverEntryLanes(sum, kWarp, a.plan.output_lanes_log2);
  __syncthreads();
  if (threadIdx.x >= a.outputs) return;
  int64_t total = 0;
  for (uint32_t warp = 0; warp < kBlockThreads / kWarp; ++warp) total += warp_sums[warp][threadIdx.x];
  AddToLongSum(a, piece.long_row, threadIdx.x, total);
}

// One block, several rows. Threads without a row, or with a long one, go along with nothing to add, because the
// exchange between lanes needs whole warps.
template <typename Weights, typename Index>
__device__ __forceinline__ void SumNarrowRows(const ScoreArguments& a, uint32_t row_block) {
  const NarrowSlot slot = SlotInRow(a.plan, threadIdx.x);
  const uint32_t row = row_block * RowsOfBlock(a.plan) + slot.row;
  uint32_t begin = 0;
  uint32_t length = 0;
  bool here = row < a.rows;
  numeric::Grid grid = {};
  if (here) {
    const uint32_t first = __ldg(a.row_begin + row);
    begin = first - a.first_entry;
    length = __ldg(a.row_begin + row + 1) - first;
    grid = GridOfRow(a, row);
    if (length > a.plan.row_limit) {  // its pieces have blocks of their own
      here = false;
      length = 0;
    }
  }
  const int64_t own = SumEntries<Weights, Index>(a, slot, begin, length, grid.inverse_step);
  const int64_t sum = SumOverEntryLanes(own, 1U << a.plan.row_threads_log2, a.plan.output_lanes_log2);
  if (here && slot.entry == 0 && slot.output < a.outputs) FinishSum(a, row, slot.output, sum, grid.step);
}

template <typename Weights, typename Index>
__global__ void __launch_bounds__(kBlockThreads) SumNarrow(const ScoreArguments a) {
  if (blockIdx.x < a.cut.pieces) {
    SumNarrowPiece<Weights, Index>(a, a.pieces[blockIdx.x]);
  } else {
    SumNarrowRows<Weights, Index>(a, blockIdx.x - a.cut.pieces);
  }
}

// An entry as all threads of a block read it, in one 16-byte load.
struct alignas(16) StagedEntry {
  size_t offset;  // of the feature's weights
  double scaled_value;
};
constexpr uint32_t kStagedEntries = 128;

// What a block of a wide model works on: a row, or a piece of one.
struct WideWork {
  uint32_t row;
  uint32_t begin;
  uint32_t length;
  bool is_piece;
  uint32_t long_row;
};

__device__ __forceinline__ WideWork WideWorkOf(const ScoreArguments& a, uint32_t block) {
  if (block < a.cut.pieces) {
    const Piece& piece = a.pieces[block];
    return {piece.row, piece.begin, piece.length, true, piece.long_row};
  }
  const uint32_t row = block - a.cut.pieces;
  const uint32_t first = __ldg(a.row_begin + row);
  return {row, first - a.first_entry, __ldg(a.row_begin + row + 1) - first, false, 0};
}

__device__ __forceinline__ void FinishWide(const ScoreArguments& a, const WideWork& work, uint32_t output, int64_t sum,
                                           double step) {
  if (output >= a.outputs) return;
  if (work.is_piece) {
    AddToLongSum(a, work.long_row, output, sum);
  } else {
    FinishSum(a, work.row, output, sum, step);
  }
}

// One block, one row or piece, one tile of outputs: thread t sums outputs t and t + blockDim.x of the tile. Each thread
// reads the weights beside its neighbour's; entries are fetched and scaled once per block.
template <typename Weights, typename Index>
__global__ void __launch_bounds__(kBlockThreads) SumWide(const ScoreArguments a) {
  __shared__ StagedEntry staged[kStagedEntries];
  const WideWork work = WideWorkOf(a, blockIdx.x);
  if (!work.is_piece && work.length > a.plan.row_limit) return;  // the same for all threads of the block

  const numeric::Grid grid = GridOfRow(a, work.row);
  const uint32_t output0 = blockIdx.y * a.plan.tile + threadIdx.x;
  const uint32_t output1 = output0 + blockDim.x;
  const Index* indices = IndicesOf<Index>(a) + work.begin;
  const auto* weights = static_cast<const typename Weights::Stored*>(a.weights);
  const auto* weights0 = weights + min(output0, a.outputs - 1);
  const auto* weights1 = weights + min(output1, a.outputs - 1);
  int64_t sum0 = 0;
  int64_t sum1 = 0;
  for (uint32_t done = 0; done < work.length; done += kStagedEntries) {
    const uint32_t count = min(kStagedEntries, work.length - done);
    __syncthreads();  // the round before has been read
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
      staged[i] = {WeightOffset(a, __ldg(indices + done + i)),
                   ScaledValue(a, work.begin + done + i, grid.inverse_step)};
    }
    __syncthreads();
#pragma unroll 4
    for (uint32_t i = 0; i < count; ++i) {
      const StagedEntry entry = staged[i];
      sum0 += numeric::Term(Weights::Load(weights0 + entry.offset), entry.scaled_value);
      sum1 += numeric::Term(Weights::Load(weights1 + entry.offset), entry.scaled_value);
    }
  }
  FinishWide(a, work, output0, sum0, grid.step);
  FinishWide(a, work, output1, sum1, grid.step);
}

static_assert(kOutputsPerThread == 2, "SumWide is written for two");

template <typename Weights, typename Index>
cudaError_t Launch(const ScoreArguments& a, const GridSize& grid, cudaStream_t stream) {
  const dim3 blocks(grid.x, grid.y);
  if (a.plan.wide) {
    SumWide<Weights, Index><<<blocks, a.plan.block_threads, 0, stream>>>(a);
  } else {
    SumNarrow<Weights, Index><<<blocks, a.plan.block_threads, 0, stream>>>(a);
  }
  return cudaGetLastError();
}

template <typename Weights>
cudaError_t LaunchForIndices(const ScoreArguments& a, const GridSize& grid, cudaStream_t stream) {
  return a.indices16 != nullptr ? Launch<Weights, uint16_t>(a, grid, stream)
                                : Launch<Weights, uint32_t>(a, grid, stream);
}

template <typename Kernel>
cudaError_t Prepare(Kernel* kernel) {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, kernel);
}

template <typename Weights, typename Index>
cudaError_t PreparePair() {
  const cudaError_t code = Prepare(SumNarrow<Weights, Index>);
  return code != cudaSuccess ? code : Prepare(SumWide<Weights, Index>);
}

template <typename Weights>
cudaError_t PrepareWeights() {
  const cudaError_t code = PreparePair<Weights, uint16_t>();
  return code != cudaSuccess ? code : PreparePair<Weights, uint32_t>();
}

}  // namespace

cudaError_t LaunchSums(const ScoreArguments& arguments, cudaStream_t stream) {
  GridSize grid;
  if (!SumGrid(arguments.plan, arguments.rows, arguments.outputs, arguments.cut.pieces, grid)) {
    return cudaErrorInvalidConfiguration;
  }
  switch (arguments.weight_type) {
    case WeightType::kFloat32:
      return LaunchForIndices<Float32Weights>(arguments, grid, stream);
    case WeightType::kFloat16:
      return LaunchForIndices<Float16Weights>(arguments, grid, stream);
    case WeightType::kBfloat16:
      return LaunchForIndices<Bfloat16Weights>(arguments, grid, stream);
    case WeightType::kInt8:
      return LaunchForIndices<Int8Weights>(arguments, grid, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t PrepareSums() {
  for (cudaError_t (*prepare)() : {PrepareWeights<Float32Weights>, PrepareWeights<Float16Weights>,
                                   PrepareWeights<Bfloat16Weights>, PrepareWeights<Int8Weights>}) {
    if (const cudaError_t code = prepare(); code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

}  // namespace widelane::cuda
