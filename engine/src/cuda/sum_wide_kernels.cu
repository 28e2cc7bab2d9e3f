// Rows of models with more than kMaxNarrowOutputs outputs: a block for each row and tile of outputs.

#include <cstddef>
#include <cstring>

#include "cuda/best_of_block.cuh"

namespace widelane::cuda {
namespace {

// An entry as all threads of a block read it, in one 16-byte load: where its feature's weights are, in bytes, and the
// scaled value.
using StagedEntry = uint4;
__device__ __forceinline__ StagedEntry Stage(size_t offset, float scaled) {
  return {static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32), __float_as_uint(scaled), 0};
}
__device__ __forceinline__ StagedEntry Stage(size_t offset, double scaled) {
  const auto bits = static_cast<uint64_t>(numeric::BitsOf(scaled));
  return {static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32), static_cast<uint32_t>(bits),
          static_cast<uint32_t>(bits >> 32)};
}
__device__ __forceinline__ size_t OffsetOf(const StagedEntry& entry) {
  return static_cast<size_t>(entry.y) << 32 | entry.x;
}
template <typename Scaled>
__device__ __forceinline__ Scaled ScaledOf(const StagedEntry& entry);
template <>
__device__ __forceinline__ float ScaledOf<float>(const StagedEntry& entry) {
  return __uint_as_float(entry.z);
}
template <>
__device__ __forceinline__ double ScaledOf<double>(const StagedEntry& entry) {
  return numeric::FromBits(static_cast<int64_t>(static_cast<uint64_t>(entry.w) << 32 | entry.z));
}
constexpr uint32_t kStagedEntries = 128;
// Entries whose weights are under way at once.
constexpr uint32_t kBatch = 4;

// kOutputs stored weights, as they are loaded: side by side, or `stride` apart but none beyond `last`.
template <typename Stored, uint32_t kOutputs, bool kVector>
struct WeightLoad {
  Stored stored[kOutputs];

  __device__ __forceinline__ void Load(const Stored* at, uint32_t stride, uint32_t last) {
#pragma unroll
    for (uint32_t v = 0; v < kOutputs; ++v) stored[v] = __ldg(at + min(v * stride, last));
  }
  __device__ __forceinline__ Stored Get(uint32_t v) const { return stored[v]; }
};

template <size_t kBytes>
struct WordOf;
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

template <typename Stored, uint32_t kOutputs>
struct WeightLoad<Stored, kOutputs, true> {
  using Word = typename WordOf<sizeof(Stored) * kOutputs>::Type;
  union {
    Word word;
    Stored stored[kOutputs];
  };

  __device__ __forceinline__ void Load(const Stored* at, uint32_t, uint32_t) {
    word = __ldg(reinterpret_cast<const Word*>(at));
  }
  __device__ __forceinline__ Stored Get(uint32_t v) const { return stored[v]; }
};

// What a block works on: a row, or a piece of one.
struct WideWork {
  uint32_t row;  // of the step
  RowEntries entries;
};

// The outputs of a thread: first, first + stride, ... kOutputs of them, or none.
struct ThreadOutputs {
  uint32_t first;
  uint32_t stride;
  bool any;
};

template <uint32_t kOutputs, bool kVector>
__device__ __forceinline__ ThreadOutputs OutputsOf(const ScoreCall& call) {
  const uint32_t tile = blockIdx.y * call.plan.tile;
  const uint32_t threads = call.plan.tile / kOutputs;
  const uint32_t first = tile + threadIdx.x * (kVector ? kOutputs : 1);
  const bool any = threadIdx.x < threads && first < call.input.outputs;
  // Threads without outputs go along with the tile's first.
  return {any ? first : tile, kVector ? 1 : threads, any};
}

template <typename Weights, typename Terms, uint32_t kOutputs, bool kVector>
class WideSum {
 public:
  using Stored = typename Weights::Stored;

  __device__ __forceinline__ WideSum(const ScoreCall& call, const WideWork& work)
      : a_(call.input), outputs_(OutputsOf<kOutputs, kVector>(call)), grid_(GridOfRow(a_, work.row)) {
    Sum(work.entries);
  }

  // Calls with each output of the thread's and its sum.
  template <typename Use>
  __device__ __forceinline__ void ForEach(const Use& use) const {
    if (!outputs_.any) return;
#pragma unroll
    for (uint32_t v = 0; v < kOutputs; ++v) {
      const uint32_t output = outputs_.first + v * outputs_.stride;
      if (kVector || output < a_.outputs) use(v, output, Terms::Total(sums_[v], count_));
    }
  }

  __device__ __forceinline__ bool any() const { return outputs_.any; }
  __device__ __forceinline__ double step() const { return grid_.step; }

 private:
  __device__ __forceinline__ void Sum(const RowEntries& row) {
    __shared__ StagedEntry staged[kStagedEntries];
    const typename Terms::Scale scale = Terms::ScaleOf(grid_);
    for (uint32_t done = 0; done < row.length; done += kStagedEntries) {
      const uint32_t count = min(kStagedEntries, row.length - done);
      const uint32_t padded = (count + kBatch - 1) / kBatch * kBatch;
      __syncthreads();  // the round before has been read
      for (uint32_t i = threadIdx.x; i < padded; i += blockDim.x) {
        // What fills up the last batch is the last entry again, with a value of 0.
        const uint32_t entry = row.begin + done + min(i, count - 1);
        staged[i] = Stage(WeightOffset(a_, FeatureOf(a_, entry)) * sizeof(Stored),
                          Terms::ScaledValue(i < count ? ValueOf(a_, entry) : 0.0F, scale));
      }
      __syncthreads();
      AddStaged(staged, padded);
      count_ += padded;
    }
  }

  __device__ __forceinline__ void AddStaged(const StagedEntry* staged, uint32_t count) {
    const auto* weights = reinterpret_cast<const std::byte*>(static_cast<const Stored*>(a_.weights) + outputs_.first);
    const uint32_t last = a_.outputs - 1 - outputs_.first;
    for (uint32_t i = 0; i < count; i += kBatch) {
      WeightLoad<Stored, kOutputs, kVector> loads[kBatch];
      typename Terms::Scaled scaled[kBatch];
#pragma unroll
      for (uint32_t b = 0; b < kBatch; ++b) {
        const StagedEntry entry = staged[i + b];
        scaled[b] = ScaledOf<typename Terms::Scaled>(entry);
        loads[b].Load(reinterpret_cast<const Stored*>(weights + OffsetOf(entry)), outputs_.stride, last);
      }
#pragma unroll
      for (uint32_t b = 0; b < kBatch; ++b) {
#pragma unroll
        for (uint32_t v = 0; v < kOutputs; ++v) Terms::Add(Weights::ToFloat(loads[b].Get(v)), scaled[b], sums_[v]);
      }
    }
  }

  const ScoreArguments& a_;
  const ThreadOutputs outputs_;
  const numeric::Grid grid_;
  uint32_t count_ = 0;
  typename Terms::Sum sums_[kOutputs];
};

// Picks the best of the block's outputs: the row's, or its tile's for a later kernel.
template <typename Weights, uint32_t kOutputs, typename WideSum>
__device__ __forceinline__ void PickWide(const ScoreCall& call, uint32_t row, const WideSum& sum) {
  extern __shared__ uint4 shared[];
  Candidate items[kOutputs];
#pragma unroll
  for (uint32_t v = 0; v < kOutputs; ++v) items[v] = {0, 0};
  sum.ForEach([&](uint32_t v, uint32_t output, int64_t steps) {
    items[v] = CandidateOf(RawOf<Weights>(call.input, output, steps, sum.step()), output);
  });
  BestOfBlock<kOutputs> best(BestMemoryAt(shared, call.best, kOutputs), call.best);
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

template <typename Weights, uint32_t kOutputs, bool kVector, typename WideSum>
__device__ __forceinline__ void FinishWide(const ScoreCall& call, uint32_t row, const WideSum& sum) {
  if constexpr (kVector) {
    int64_t sums[kOutputs];
    uint32_t first = 0;
    sum.ForEach([&](uint32_t v, uint32_t output, int64_t steps) {
      sums[v] = steps;
      if (v == 0) first = output;
    });
    if (sum.any()) FinishSideBySide<Weights>(call, row, first, sums, sum.step());
  } else {
    sum.ForEach(
        [&](uint32_t, uint32_t output, int64_t steps) { FinishSum<Weights>(call, row, output, steps, sum.step()); });
  }
}

template <typename Weights, typename Terms, uint32_t kOutputs, bool kVector>
__global__ void __launch_bounds__(kBlockThreads) SumWide(const ScoreCall call) {
  const WideWork work = {blockIdx.x, EntriesOfRow(call.input, blockIdx.x)};
  if (work.entries.length > call.row_limit) return;  // the same for all threads of the block
  const WideSum<Weights, Terms, kOutputs, kVector> sum(call, work);
  if (call.best > 0) {
    PickWide<Weights, kOutputs>(call, work.row, sum);
  } else {
    FinishWide<Weights, kOutputs, kVector>(call, work.row, sum);
  }
}

template <typename Weights, typename Terms, uint32_t kOutputs, bool kVector>
__global__ void __launch_bounds__(kBlockThreads) SumWidePieces(const ScoreCall call) {
  const Piece piece = call.input.pieces[blockIdx.x];
  const uint32_t row = piece.row - call.input.first_row;
  if (row >= call.input.rows) return;  // of another step
  const WideSum<Weights, Terms, kOutputs, kVector> sum(call, {row, {piece.begin, piece.length}});
  sum.ForEach([&](uint32_t, uint32_t output, int64_t steps) { AddToLongSum(call, row, output, steps); });
}

struct Kernels {
  CallKernel rows;
  CallKernel pieces;
};

template <typename Weights, typename Terms, uint32_t kOutputs, bool kVector>
Kernels Both() {
  return {SumWide<Weights, Terms, kOutputs, kVector>, SumWidePieces<Weights, Terms, kOutputs, kVector>};
}

// Which variant of the kernels; of those that PlanSums makes.
struct Variant {
  bool split;
  bool few;  // outputs of a thread: 2, not as many as a load brings
  bool vector;
};

template <typename Weights>
Kernels KernelsFor(const Variant& variant) {
  constexpr uint32_t kMany = sizeof(typename Weights::Stored) == 4 ? 4 : 8;
  if (!variant.split) return Both<Weights, DoubleTerms, 2, false>();
  if (variant.few) {
    return variant.vector ? Both<Weights, SplitTerms, 2, true>() : Both<Weights, SplitTerms, 2, false>();
  }
  return variant.vector ? Both<Weights, SplitTerms, kMany, true>() : Both<Weights, SplitTerms, kMany, false>();
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
                    {numeric::MaySplit(call.input.max_weight), plan.thread_outputs == 2, plan.vector});
}

}  // namespace

cudaError_t LaunchWide(const ScoreCall& call, cudaStream_t stream) {
  const SumPlan& plan = call.plan;
  const size_t shared = call.best == 0 ? 0 : BestMemoryBytes(plan.block_threads, call.best, plan.thread_outputs);
  return LaunchCall(KernelsFor(call).rows, dim3(plan.blocks, plan.tiles), plan.block_threads, shared, call, stream);
}

cudaError_t LaunchWidePieces(const ScoreCall& call, cudaStream_t stream) {
  return LaunchCall(KernelsFor(call).pieces, dim3(call.input.cut.pieces, call.plan.tiles), call.plan.block_threads, 0,
                    call, stream);
}

cudaError_t PrepareWide() {
  for (const WeightType type : kWeightTypes) {
    for (const Variant& variant : {Variant{false, true, false}, Variant{true, true, false}, Variant{true, true, true},
                                   Variant{true, false, false}, Variant{true, false, true}}) {
      const Kernels kernels = KernelsFor(type, variant);
      if (const cudaError_t code = PrepareKernel(kernels.rows); code != cudaSuccess) return code;
      if (const cudaError_t code = PrepareKernel(kernels.pieces); code != cudaSuccess) return code;
    }
  }
  return cudaSuccess;
}

}  // namespace widelane::cuda
