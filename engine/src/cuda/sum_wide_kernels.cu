// Rows of models with more than kMaxNarrowOutputs outputs: a block for each row and tile of outputs.

#include <cstddef>
#include <cstring>

#include "cuda/best_of_block.cuh"
#include "cuda/running_terms.cuh"

namespace widelane::cuda {
namespace {

// An entry as all threads of a block read it, in one load.
template <typename Scaled>
struct alignas(2 * sizeof(Scaled)) StagedEntry {
  uint32_t feature;
  Scaled scaled;
};
// No more than may be added up before a flush.
constexpr uint32_t kStagedEntries = RunningTerms::kMostTerms;

template <size_t kBytes>
struct WordOf;
template <>
struct WordOf<1> {
  using Type = uint8_t;
};
template <>
struct WordOf<2> {
  using Type = uint16_t;
};
template <>
struct WordOf<4> {
  using Type = uint32_t;
};
template <>
struct WordOf<8> {
  using Type = uint2;
};
template <>
struct WordOf<16> {
  using Type = uint4;
};

// kWidth stored weights that lie side by side, loaded at once.
template <typename Stored, uint32_t kWidth>
union WeightLoad {
  using Word = typename WordOf<sizeof(Stored) * kWidth>::Type;
  Word word;
  Stored stored[kWidth];

  __device__ __forceinline__ void Load(const std::byte* at) { word = __ldg(reinterpret_cast<const Word*>(at)); }
};

// How a thread's outputs lie: kLoads times kWidth side by side, which one load brings.
template <uint32_t kLoadsOfEntry, uint32_t kWidthOfLoad>
struct Layout {
  static constexpr uint32_t kLoads = kLoadsOfEntry;
  static constexpr uint32_t kWidth = kWidthOfLoad;
  static constexpr uint32_t kOutputs = kLoads * kWidth;
};

// Entries whose weights are under way at once: as many as registers allow.
template <typename Stored, typename Layout>
constexpr uint32_t BatchOf() {
  constexpr size_t kRegisters = Layout::kLoads * ((sizeof(Stored) * Layout::kWidth + 3) / 4);
  return kRegisters > 4 ? 4 : 8;
}

// What a block works on: a row, or a piece of one.
struct WideWork {
  uint32_t row;  // of the step
  RowEntries entries;
};

// Sums of the outputs of a thread: a tile's width / kLoads apart, kLoads times kWidth side by side.
template <typename Weights, typename Terms, typename Layout>
class WideSum {
 public:
  using Stored = typename Weights::Stored;
  static constexpr uint32_t kLoads = Layout::kLoads;
  static constexpr uint32_t kWidth = Layout::kWidth;

  __device__ __forceinline__ WideSum(const ScoreCall& call, const WideWork& work)
      : a_(call.input),
        first_(blockIdx.y * call.plan.tile + threadIdx.x * kWidth),
        stride_(call.plan.tile / kLoads),
        grid_(GridOfRow(a_, work.row)) {
    any_ = threadIdx.x * kWidth < stride_;
    Sum(work.entries);
  }

  // Whether the thread has the outputs of load l, from first(l) on.
  __device__ __forceinline__ bool has(uint32_t l) const { return any_ && first(l) < a_.outputs; }
  __device__ __forceinline__ uint32_t first(uint32_t l) const { return first_ + l * stride_; }
  // In steps, of output first(l) + v.
  __device__ __forceinline__ int64_t Total(uint32_t l, uint32_t v) const { return Terms::Total(sums_[l][v], count_); }
  // All of them, each with what the row's context adds.
  __device__ __forceinline__ void WholeTotals(uint32_t row, int64_t (&totals)[kLoads][kWidth]) const {
#pragma unroll
    for (uint32_t l = 0; l < kLoads; ++l) {
#pragma unroll
      for (uint32_t v = 0; v < kWidth; ++v) totals[l][v] = Total(l, v);
    }
    if (a_.context_sums == nullptr) return;
    const int64_t* context = ContextOf(a_, row);
#pragma unroll
    for (uint32_t l = 0; l < kLoads; ++l) {
      if (!has(l)) continue;
#pragma unroll
      for (uint32_t v = 0; v < kWidth; ++v) totals[l][v] += __ldg(context + first(l) + v);
    }
  }
  __device__ __forceinline__ double step() const { return grid_.step; }

 private:
  using Scaled = typename Terms::Scaled;
  using Staged = StagedEntry<Scaled>;
  static constexpr uint32_t kBatch = BatchOf<Stored, Layout>();
  static constexpr uint32_t kLeastBatch = 4;

  __device__ __forceinline__ void Sum(const RowEntries& row) {
    __shared__ Staged staged[kStagedEntries];
    const typename Terms::Scale scale = Terms::ScaleOf(grid_);
    for (uint32_t done = 0; done < row.length; done += kStagedEntries) {
      const uint32_t count = min(kStagedEntries, row.length - done);
      const uint32_t padded = (count + kLeastBatch - 1) / kLeastBatch * kLeastBatch;
      if (done > 0) StartRound();
      for (uint32_t i = threadIdx.x; i < padded; i += blockDim.x) {
        // What fills up the last batch is the last entry again, with a value of 0.
        const uint32_t entry = row.begin + done + min(i, count - 1);
        staged[i] = {FeatureOf(a_, entry), Terms::ScaledValue(i < count ? ValueOf(a_, entry) : 0.0F, scale)};
      }
      __syncthreads();
      AddStaged(staged, padded);
      count_ += padded;
    }
  }

  __device__ __forceinline__ void StartRound() {
    __syncthreads();  // the round before has been read
#pragma unroll
    for (uint32_t l = 0; l < kLoads; ++l) {
#pragma unroll
      for (uint32_t v = 0; v < kWidth; ++v) Terms::Flush(sums_[l][v]);
    }
  }

  __device__ __forceinline__ void AddStaged(const Staged* staged, uint32_t count) {
    const std::byte* weights[kLoads];
#pragma unroll
    for (uint32_t l = 0; l < kLoads; ++l) {
      // Where the thread has no outputs it goes along with the first.
      weights[l] = reinterpret_cast<const std::byte*>(static_cast<const Stored*>(a_.weights) + (has(l) ? first(l) : 0));
    }
    uint32_t i = 0;
#pragma unroll 1
    for (; i + kBatch <= count; i += kBatch) AddBatch<kBatch>(staged + i, weights);
    if constexpr (kBatch > kLeastBatch) {
      if (i < count) AddBatch<kLeastBatch>(staged + i, weights);
    }
  }

  template <uint32_t kCount>
  __device__ __forceinline__ void AddBatch(const Staged* staged, const std::byte* const (&weights)[kLoads]) {
    WeightLoad<Stored, kWidth> loads[kCount][kLoads];
    Scaled scaled[kCount];
    const auto feature_bytes = static_cast<uint32_t>(a_.outputs * sizeof(Stored));
#pragma unroll
    for (uint32_t b = 0; b < kCount; ++b) {
      const Staged entry = staged[b];
      scaled[b] = entry.scaled;
#pragma unroll
      for (uint32_t l = 0; l < kLoads; ++l) {
        loads[b][l].Load(weights[l] + static_cast<size_t>(entry.feature) * feature_bytes);
      }
    }
#pragma unroll
    for (uint32_t b = 0; b < kCount; ++b) {
#pragma unroll
      for (uint32_t l = 0; l < kLoads; ++l) {
#pragma unroll
        for (uint32_t v = 0; v < kWidth; ++v) {
          Terms::Add(Weights::ToFloat(loads[b][l].stored[v]), scaled[b], sums_[l][v]);
        }
      }
    }
  }

  const ScoreArguments& a_;
  const uint32_t first_;
  const uint32_t stride_;
  const numeric::Grid grid_;
  bool any_;
  uint32_t count_ = 0;
  typename Terms::Sum sums_[kLoads][kWidth];
};

// Picks the best of the block's outputs: the row's, or its tile's for a later kernel.
template <typename Weights, typename Layout, typename WideSum>
__device__ __forceinline__ void PickWide(const ScoreCall& call, uint32_t row, const WideSum& sum) {
  extern __shared__ uint4 shared[];
  int64_t sums[Layout::kLoads][Layout::kWidth];
  sum.WholeTotals(row, sums);
  Candidate items[Layout::kOutputs];
#pragma unroll
  for (uint32_t l = 0; l < Layout::kLoads; ++l) {
#pragma unroll
    for (uint32_t v = 0; v < Layout::kWidth; ++v) {
      const uint32_t output = sum.first(l) + v;
      items[l * Layout::kWidth + v] =
          sum.has(l) ? CandidateOf(RawOf<Weights>(call.input, output, sums[l][v], sum.step()), output)
                     : Candidate{0, 0};
    }
  }
  BestOfBlock<Layout::kOutputs> best(BestMemoryAt(shared, call.best), call.best);
  best.Offer(items);
  if (call.candidates == nullptr) {
    const Link link = call.input.link;
    WriteBest(call, row, best.sorted(), [link](double raw) { return numeric::PointwiseLink(link, raw); });
    return;
  }
  Candidate* to = call.candidates + (static_cast<size_t>(row) * gridDim.y + blockIdx.y) * call.best;
  for (uint32_t i = threadIdx.x; i < call.best; i += blockDim.x) {
    to[i] = i < best.size() ? best.sorted()[i] : Candidate{0, 0};
  }
}

// Writes numbers that lie side by side, 16 bytes at a time where that is possible.
template <typename T, uint32_t kCount>
__device__ __forceinline__ void Store(const T (&values)[kCount], T* to) {
  constexpr uint32_t kPerWord = sizeof(uint4) / sizeof(T);
  if constexpr (kCount >= kPerWord) {
    if (reinterpret_cast<uintptr_t>(to) % sizeof(uint4) == 0) {
#pragma unroll
      for (uint32_t i = 0; i < kCount / kPerWord; ++i) {
        uint4 word;
        memcpy(&word, values + i * kPerWord, sizeof(word));
        reinterpret_cast<uint4*>(to)[i] = word;
      }
      return;
    }
  }
#pragma unroll
  for (uint32_t v = 0; v < kCount; ++v) to[v] = values[v];
}

// Writes what is wanted of a thread's sums, whose outputs lie side by side.
template <typename Weights, uint32_t kOutputs>
__device__ __forceinline__ void FinishSideBySide(const ScoreCall& call, uint32_t row, uint32_t first_output,
                                                 const int64_t (&sums)[kOutputs], double step) {
  const size_t at = static_cast<size_t>(row) * call.input.outputs + first_output;
  if (call.partial != nullptr) {
    Store(sums, call.partial + at);
    return;
  }
  double raw[kOutputs];
#pragma unroll
  for (uint32_t v = 0; v < kOutputs; ++v) raw[v] = RawOf<Weights>(call.input, first_output + v, sums[v], step);
  if (call.raw != nullptr) Store(raw, call.raw + at);
  if (call.scores == nullptr) return;
  float scores[kOutputs];
#pragma unroll
  for (uint32_t v = 0; v < kOutputs; ++v) {
    scores[v] = static_cast<float>(numeric::PointwiseLink(call.input.link, raw[v]));
  }
  Store(scores, call.scores + at);
}

template <typename Weights, typename Layout, typename WideSum>
__device__ __forceinline__ void FinishWide(const ScoreCall& call, uint32_t row, const WideSum& sum) {
  int64_t sums[Layout::kLoads][Layout::kWidth];
  sum.WholeTotals(row, sums);
#pragma unroll
  for (uint32_t l = 0; l < Layout::kLoads; ++l) {
    if (!sum.has(l)) continue;
    FinishSideBySide<Weights>(call, row, sum.first(l), sums[l], sum.step());
  }
}

// Registers of these kernels are bounded so that warps enough fit a multiprocessor.
template <typename Weights, typename Terms, typename Layout>
__global__ void __launch_bounds__(kBlockThreads, 3) SumWide(const ScoreCall call) {
  const WideWork work = {blockIdx.x, EntriesOfRow(call.input, blockIdx.x)};
  if (work.entries.length > call.row_limit) return;  // the same for all threads of the block
  const WideSum<Weights, Terms, Layout> sum(call, work);
  if (call.best > 0) {
    PickWide<Weights, Layout>(call, work.row, sum);
  } else {
    FinishWide<Weights, Layout>(call, work.row, sum);
  }
}

template <typename Weights, typename Terms, typename Layout>
__global__ void __launch_bounds__(kBlockThreads, 3) SumWidePieces(const ScoreCall call) {
  const Piece piece = call.input.pieces[blockIdx.x];
  const uint32_t row = piece.row - call.input.first_row;
  if (row >= call.input.rows) return;  // of another step
  const WideSum<Weights, Terms, Layout> sum(call, {row, {piece.begin, piece.length}});
#pragma unroll
  for (uint32_t l = 0; l < Layout::kLoads; ++l) {
    if (!sum.has(l)) continue;
#pragma unroll
    for (uint32_t v = 0; v < Layout::kWidth; ++v) AddToLongSum(call, row, sum.first(l) + v, sum.Total(l, v));
  }
}

struct Kernels {
  CallKernel rows;
  CallKernel pieces;
};

template <typename Weights, typename Terms, uint32_t kLoads, uint32_t kWidth>
Kernels Both() {
  return {SumWide<Weights, Terms, Layout<kLoads, kWidth>>, SumWidePieces<Weights, Terms, Layout<kLoads, kWidth>>};
}

// Which variant of the kernels; of those that PlanSums makes.
struct Variant {
  bool split;
  uint32_t outputs;  // of a thread: 2, 4 or 8; in double 2
  bool vector;
};

template <typename Weights>
Kernels KernelsFor(const Variant& variant) {
  constexpr uint32_t kLoadsOf8 = sizeof(typename Weights::Stored) == 4 ? 2 : 1;
  if (!variant.split) return Both<Weights, DoubleTerms, 2, 1>();
  if (variant.outputs == 2)
    return variant.vector ? Both<Weights, RunningTerms, 1, 2>() : Both<Weights, RunningTerms, 2, 1>();
  if (!variant.vector) return Both<Weights, RunningTerms, 4, 1>();
  if (variant.outputs == 4) return Both<Weights, RunningTerms, 1, 4>();
  return Both<Weights, RunningTerms, kLoadsOf8, 8 / kLoadsOf8>();
}

Kernels KernelsFor(WeightType type, const Variant& variant) {
  switch (type) {
    case WeightType::kFloat32:
      return KernelsFor<Float32Weights>(variant);
    case WeightType::kFloat16:
      return KernelsFor<Float16Weights>(variant);
    case WeightType::kBfloat16:
      return KernelsFor<Bfloat16Weights>(variant);
    case WeightType::kInt8:
      break;
  }
  return KernelsFor<Int8Weights>(variant);
}

Kernels KernelsFor(const ScoreCall& call) {
  const SumPlan& plan = call.plan;
  return KernelsFor(call.input.weight_type,
                    {numeric::MaySplit(call.input.max_weight), plan.thread_outputs, plan.vector});
}

}  // namespace

cudaError_t LaunchWide(const ScoreCall& call, cudaStream_t stream) {
  const SumPlan& plan = call.plan;
  const size_t shared = call.best == 0 ? 0 : BestMemoryBytes(plan.block_threads, call.best);
  return LaunchCall(KernelsFor(call).rows, dim3(plan.blocks, plan.tiles), plan.block_threads, shared, call, stream);
}

cudaError_t LaunchWidePieces(const ScoreCall& call, cudaStream_t stream) {
  return LaunchCall(KernelsFor(call).pieces, dim3(call.input.cut.pieces, call.plan.tiles), call.plan.block_threads, 0,
                    call, stream);
}

cudaError_t PrepareWide() {
  for (const WeightType type : kWeightTypes) {
    for (const Variant& variant : {Variant{false, 2, false}, Variant{true, 2, false}, Variant{true, 4, false},
                                   Variant{true, 2, true}, Variant{true, 4, true}, Variant{true, 8, true}}) {
      const Kernels kernels = KernelsFor(type, variant);
      if (const cudaError_t code = PrepareKernel(kernels.rows); code != cudaSuccess) return code;
      if (const cudaError_t code = PrepareKernel(kernels.pieces); code != cudaSuccess) return code;
    }
  }
  return cudaSuccess;
}

}  // namespace widelane::cuda
