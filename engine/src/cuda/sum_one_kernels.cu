// Rows of models with one output, in single precision arithmetic (numeric::MaySplit).
//
// Indices are read two at a time, as words aligned to their size; where a row begins or ends in the middle of a word,
// the zero feature takes the other half's place.

#include "cuda/device_code.cuh"

namespace widelane::cuda {
namespace {

// Two indices, in one load.
template <typename Index>
struct PairOf;
template <>
struct PairOf<uint16_t> {
  using Word = uint32_t;
  static __device__ __forceinline__ uint32_t First(Word word) { return word & 0xFFFFu; }
  static __device__ __forceinline__ uint32_t Second(Word word) { return word >> 16; }
};
template <>
struct PairOf<uint32_t> {
  using Word = uint2;
  static __device__ __forceinline__ uint32_t First(Word word) { return word.x; }
  static __device__ __forceinline__ uint32_t Second(Word word) { return word.y; }
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

// Where weights are: in global memory, or all of them in the block's shared memory.
template <typename Weights>
struct GlobalWeights {
  const typename Weights::Stored* at;
  __device__ __forceinline__ float operator[](uint32_t feature) const { return Weights::ToFloat(__ldg(at + feature)); }
};
template <typename Weights>
struct SharedWeights {
  const typename Weights::Stored* at;
  __device__ __forceinline__ float operator[](uint32_t feature) const { return Weights::ToFloat(at[feature]); }
};

// What a batch's values are; a part of the kernels' types, since branches between loads would keep them apart.
enum class ValueKind { kOnes, kFloat16, kFloat32 };

// A row cut into pairs of entries: entry 2j - skip() is the first of pair j.
struct PairedRow {
  uint32_t begin;                  // first entry of pair 0
  uint32_t twice_length_and_skip;  // skip is 1 where pair 0 begins before the row does
  numeric::SplitScale scale;

  __device__ __forceinline__ uint32_t length() const { return twice_length_and_skip / 2; }
  __device__ __forceinline__ uint32_t skip() const { return twice_length_and_skip % 2; }
  __device__ __forceinline__ uint32_t pairs() const { return (skip() + length() + 1) / 2; }
  __device__ __forceinline__ uint32_t last_pair() const { return (max(skip() + length(), 1U) - 1) / 2; }
};

// `odd`: 1 where the array of indices begins in the middle of a word. The first pair can be read also where there is
// none, as long as the call has entries at all.
__device__ __forceinline__ PairedRow PairRow(const RowEntries& row, uint32_t odd, const numeric::SplitScale& scale) {
  const uint32_t begin = row.length > 0 ? row.begin : 0;
  const uint32_t skip = (begin + odd) % 2;
  return {begin - skip, 2 * row.length + skip, scale};
}

// Of another lane.
template <ValueKind kKind>
__device__ __forceinline__ PairedRow RowOfLane(const PairedRow& own, uint32_t lane) {
  const int from = static_cast<int>(lane);
  PairedRow row = {__shfl_sync(kAllLanes, own.begin, from), __shfl_sync(kAllLanes, own.twice_length_and_skip, from),
                   own.scale};
  if constexpr (kKind != ValueKind::kOnes) {  // without values all rows have one scale
    row.scale = {__shfl_sync(kAllLanes, own.scale.first, from), __shfl_sync(kAllLanes, own.scale.second, from)};
  }
  return row;
}

// Reads and adds pairs of entries.
template <typename Index, typename Source, ValueKind kKind>
struct PairAdder {
  using Pair = PairOf<Index>;
  using Word = typename Pair::Word;
  static constexpr ValueKind kValues = kKind;

  const ScoreArguments& a;
  const Index* indices;
  Source weights;

  __device__ __forceinline__ PairAdder(const ScoreArguments& arguments, const Source& source)
      : a(arguments), indices(IndicesOf<Index>(arguments)), weights(source) {}

  // Whether the array of indices begins in the middle of a word.
  __device__ __forceinline__ uint32_t odd() const {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(indices) / sizeof(Index)) % 2;
  }

  // Behind the row's end: its last pair again. Loads without a condition are all under way at once.
  __device__ __forceinline__ Word Load(const PairedRow& row, uint32_t pair) const {
    // `begin` may be -1 modulo 2^32, when the word begins before the array.
    const auto* words = reinterpret_cast<const Word*>(indices + static_cast<int32_t>(row.begin));
    return __ldg(words + min(pair, row.last_pair()));
  }

  // Adds two terms, zeros for what is not of the row.
  __device__ __forceinline__ void Add(const PairedRow& row, uint32_t pair, Word word, numeric::SplitSums& sums) const {
    const uint32_t entry = 2 * pair - row.skip();
    AddEntry(row, entry, Pair::First(word), sums);
    AddEntry(row, entry + 1, Pair::Second(word), sums);
  }

 private:
  __device__ __forceinline__ void AddEntry(const PairedRow& row, uint32_t entry, uint32_t feature,
                                           numeric::SplitSums& sums) const {
    const bool here = entry < row.length();
    const float weight = weights[here ? LocalFeature(a, feature) : a.features];
    numeric::AddSplitTerm(weight, Scaled(row, entry, here), sums);
  }

  __device__ __forceinline__ float Scaled(const PairedRow& row, uint32_t entry, bool here) const {
    const uint32_t at = row.begin + row.skip() + entry;
    float value = 1.0F;
    if constexpr (kKind == ValueKind::kFloat16) value = here ? FloatOfHalf(__ldg(a.values16 + at)) : 0.0F;
    if constexpr (kKind == ValueKind::kFloat32) value = here ? __ldg(a.values32 + at) : 0.0F;
    return numeric::SplitValue(value, row.scale);
  }
};

// The rows of a group, kLanes lanes for each: in step s of kLanes the lanes [q kLanes, (q + 1) kLanes) add up row
// q kLanes + s. Their sums are then exchanged so that each lane ends with the sum of its own row: in each of
// log2(kLanes) rounds a lane gives away half of the sums it has parts of.
template <typename Adder, uint32_t kLanes, uint32_t kPairs>
struct GroupAdder {
  // Steps whose indices are loaded before the first is used; more would take too many registers.
  static constexpr uint32_t kSteps = 16 / sizeof(typename Adder::Word);

  const Adder& adder;
  const PairedRow& own;

  // Terms of a row of `pairs` pairs, those that are zeros included.
  static __device__ __forceinline__ uint32_t Count(uint32_t pairs) { return 2 * max(pairs, kLanes * kPairs); }

  __device__ __forceinline__ PairedRow RowOfStep(uint32_t step) const {
    return RowOfLane<Adder::kValues>(own, threadIdx.x % kWarp / kLanes * kLanes + step);
  }

  __device__ __forceinline__ numeric::SplitSums AddStep(const PairedRow& row,
                                                        const typename Adder::Word (&words)[kPairs]) const {
    const uint32_t first = threadIdx.x % kLanes;
    numeric::SplitSums sums;
#pragma unroll
    for (uint32_t u = 0; u < kPairs; ++u) adder.Add(row, first + u * kLanes, words[u], sums);
#pragma unroll 1
    for (uint32_t pair = first + kPairs * kLanes; pair < row.pairs(); pair += kLanes) {
      adder.Add(row, pair, adder.Load(row, pair), sums);
    }
    return sums;
  }

  // Of sums `low` and `high`, keeps that of the lane's own bit and gives the other away.
  static __device__ __forceinline__ numeric::SplitSums Exchange(const numeric::SplitSums& low,
                                                                const numeric::SplitSums& high, uint32_t bit) {
    const bool keeps_high = (threadIdx.x & bit) != 0;
    numeric::SplitSums kept = keeps_high ? high : low;
    const numeric::SplitSums given = keeps_high ? low : high;
    kept.high += __shfl_xor_sync(kAllLanes, given.high, static_cast<int>(bit));
    kept.low += __shfl_xor_sync(kAllLanes, given.low, static_cast<int>(bit));
    return kept;
  }

  // Steps [kFirst, kFirst + kCount), all of whose words are loaded: words[0] is of step kFirst.
  template <uint32_t kFirst, uint32_t kCount>
  __device__ __forceinline__ numeric::SplitSums AddLoaded(const typename Adder::Word (*words)[kPairs]) const {
    if constexpr (kCount == 1) {
      return AddStep(RowOfStep(kFirst), words[0]);
    } else {
      const numeric::SplitSums low = AddLoaded<kFirst, kCount / 2>(words);
      const numeric::SplitSums high = AddLoaded<kFirst + kCount / 2, kCount / 2>(words + kCount / 2);
      return Exchange(low, high, kCount / 2);
    }
  }

  template <uint32_t kFirst = 0, uint32_t kCount = kLanes>
  __device__ __forceinline__ numeric::SplitSums Add() const {
    if constexpr (kCount > kSteps) {
      const numeric::SplitSums low = Add<kFirst, kCount / 2>();
      const numeric::SplitSums high = Add<kFirst + kCount / 2, kCount / 2>();
      return Exchange(low, high, kCount / 2);
    } else {
      typename Adder::Word words[kCount][kPairs];
#pragma unroll
      for (uint32_t s = 0; s < kCount; ++s) {
        const PairedRow row = RowOfStep(kFirst + s);
#pragma unroll
        for (uint32_t u = 0; u < kPairs; ++u) words[s][u] = adder.Load(row, threadIdx.x % kLanes + u * kLanes);
      }
      return AddLoaded<kFirst, kCount>(words);
    }
  }
};

// One row, by a whole warp; all lanes get the sum.
template <typename Adder>
__device__ __forceinline__ int64_t AddRowByWarp(const Adder& adder, const PairedRow& row) {
  constexpr uint32_t kPairs = 2;  // of a lane whose loads are under way at once
  const uint32_t lane = threadIdx.x % kWarp;
  numeric::SplitSums sums;
  uint32_t count = 0;  // of each lane
  for (uint32_t base = 0; base < row.pairs(); base += kWarp * kPairs) {
    typename Adder::Word words[kPairs];
#pragma unroll
    for (uint32_t u = 0; u < kPairs; ++u) words[u] = adder.Load(row, base + u * kWarp + lane);
#pragma unroll
    for (uint32_t u = 0; u < kPairs; ++u) adder.Add(row, base + u * kWarp + lane, words[u], sums);
    count += 2 * kPairs;
  }
  if (row.length() <= numeric::kMaxSplitTerms) {
    const numeric::SplitSums all = {WarpSum(sums.high), WarpSum(sums.low)};
    return numeric::SplitSum(all, count * kWarp);
  }
  return SumOverLanes(numeric::SplitSum(sums, count), kWarp, 1);
}

// What the lanes of a warp know of a group: each of its own row.
struct LaneRow {
  uint32_t row;  // of the step
  PairedRow entries;
  double step;
  bool here;  // the row is one of the step's and not a long one
};

__device__ __forceinline__ LaneRow LaneRowOf(const ScoreCall& call, uint32_t group, uint32_t odd) {
  const ScoreArguments& a = call.input;
  RowEntries own = LaneEntries(a, group);
  const uint32_t row = group * kGroupRows + threadIdx.x % kWarp;
  const bool here = row < a.rows && own.length <= call.row_limit;
  if (!here) own.length = 0;
  const numeric::Grid grid = GridOfRow(a, min(row, a.rows - 1));
  return {row, PairRow(own, odd, numeric::SplitScaleFor(grid)), grid.step, here};
}

// The sums of a group's rows, each with the row's lane. Rows that would keep others waiting get a whole warp.
template <typename Adder, uint32_t kLanes, uint32_t kPairs>
__device__ __forceinline__ int64_t AddGroup(const Adder& adder, const LaneRow& own) {
  using Group = GroupAdder<Adder, kLanes, kPairs>;
  const bool is_short = own.entries.length() <= kLanes * kWarp;
  PairedRow entries = own.entries;
  if (!is_short) entries.twice_length_and_skip = 0;
  const numeric::SplitSums sums = Group{adder, entries}.Add();
  int64_t sum = numeric::SplitSum(sums, Group::Count(entries.pairs()));
#pragma unroll 1
  for (uint32_t others = __ballot_sync(kAllLanes, !is_short); others != 0; others &= others - 1) {
    const uint32_t lane = static_cast<uint32_t>(__ffs(static_cast<int>(others))) - 1;
    const int64_t of_row = AddRowByWarp(adder, RowOfLane<Adder::kValues>(own.entries, lane));
    if (threadIdx.x % kWarp == lane) sum = of_row;
  }
  return sum;
}

template <typename Weights, typename Adder, uint32_t kLanes, uint32_t kPairs>
__device__ __forceinline__ void ScoreGroup(const ScoreCall& call, const Adder& adder, const LaneRow& own) {
  const int64_t sum = AddGroup<Adder, kLanes, kPairs>(adder, own);
  if (own.here) FinishSum<Weights>(call, own.row, 0, sum, own.step);
}

template <typename Weights>
__device__ __forceinline__ GlobalWeights<Weights> GlobalWeightsOf(const ScoreArguments& a) {
  return {static_cast<const typename Weights::Stored*>(a.weights)};
}

__device__ __forceinline__ uint32_t WarpOfGrid() { return blockIdx.x * (blockDim.x / kWarp) + threadIdx.x / kWarp; }

template <typename Weights, typename Index, ValueKind kKind>
using GlobalAdder = PairAdder<Index, GlobalWeights<Weights>, kKind>;

// A warp, one group.
template <typename Weights, typename Index, ValueKind kKind, uint32_t kLanes, uint32_t kPairs>
__global__ void __launch_bounds__(kBlockThreads, 4) SumGroups(const ScoreCall call) {
  using Adder = GlobalAdder<Weights, Index, kKind>;
  const uint32_t group = WarpOfGrid();
  if (group * kGroupRows >= call.input.rows) return;
  const Adder adder(call.input, GlobalWeightsOf<Weights>(call.input));
  ScoreGroup<Weights, Adder, kLanes, kPairs>(call, adder, LaneRowOf(call, group, adder.odd()));
}

// A warp, a few rows of a group.
template <typename Weights, typename Index, ValueKind kKind>
__global__ void __launch_bounds__(kBlockThreads) SumWarpRows(const ScoreCall call) {
  const uint32_t first = WarpOfGrid() * call.plan.warp_rows;
  if (first >= call.input.rows) return;
  const GlobalAdder<Weights, Index, kKind> adder(call.input, GlobalWeightsOf<Weights>(call.input));
  const LaneRow own = LaneRowOf(call, first / kGroupRows, adder.odd());
  const uint32_t first_lane = first % kWarp;
  const uint32_t lane = threadIdx.x % kWarp;
  int64_t sum = 0;
  for (uint32_t i = first_lane; i < first_lane + call.plan.warp_rows; ++i) {
    const int64_t of_row = AddRowByWarp(adder, RowOfLane<kKind>(own.entries, i));
    if (lane == i) sum = of_row;
  }
  const bool mine = lane >= first_lane && lane < first_lane + call.plan.warp_rows;
  if (mine && own.here) FinishSum<Weights>(call, own.row, 0, sum, own.step);
}

// Copies 16 bytes to shared memory; they are there after AwaitCopies and a barrier.
__device__ __forceinline__ void StartCopy(const uint4* from, uint4* to) {
#if __CUDA_ARCH__ >= 800
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
#else
  *to = __ldg(from);
#endif
}
__device__ __forceinline__ void AwaitCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Copies all weights to the block's shared memory: all of a thread's loads are under way at once.
template <typename Stored>
__device__ __forceinline__ void StartCopyOfWeights(const Stored* from, uint32_t count, Stored* to) {
  constexpr uint32_t kPerVector = sizeof(uint4) / sizeof(Stored);
  const uint32_t vectors = count / kPerVector;
#pragma unroll 4
  for (uint32_t i = threadIdx.x; i < vectors; i += blockDim.x) {
    StartCopy(reinterpret_cast<const uint4*>(from) + i, reinterpret_cast<uint4*>(to) + i);
  }
  const uint32_t rest = vectors * kPerVector + threadIdx.x;
  if (rest < count) to[rest] = __ldg(from + rest);
}

// Asks for the indices of a group that will be read soon.
template <typename Index>
__device__ __forceinline__ void PrefetchGroup(const ScoreArguments& a, const Index* indices, uint32_t group) {
  if (group * kGroupRows >= a.rows) return;  // the whole warp
  const RowEntries own = LaneEntries(a, group);
#if defined(__CUDA_ARCH__)
  if (own.length > 0) asm volatile("prefetch.global.L2 [%0];" ::"l"(indices + own.begin));
#endif
}

// A block for each multiprocessor, whose warps take group after group.
template <typename Weights, typename Index, ValueKind kKind>
__global__ void __launch_bounds__(1024) SumShared(const ScoreCall call) {
  using Adder = PairAdder<Index, SharedWeights<Weights>, kKind>;
  extern __shared__ uint4 shared[];
  auto* weights = reinterpret_cast<typename Weights::Stored*>(shared);
  const ScoreArguments& a = call.input;
  StartCopyOfWeights(static_cast<const typename Weights::Stored*>(a.weights), a.features + 1, weights);
  const Adder adder(a, {weights});
  // Neighbouring groups go to different blocks, so that all blocks have as many, give or take one for each warp.
  const uint32_t stride = gridDim.x * (blockDim.x / kWarp);
  uint32_t group = threadIdx.x / kWarp * gridDim.x + blockIdx.x;
  PrefetchGroup(a, adder.indices, group);
  PrefetchGroup(a, adder.indices, group + stride);
  AwaitCopies();
  __syncthreads();
#pragma unroll 1
  for (; group * kGroupRows < a.rows; group += stride) {
    ScoreGroup<Weights, Adder, 8, 3>(call, adder, LaneRowOf(call, group, adder.odd()));
  }
}

// Which variant of the kernels.
struct Variant {
  SumKind kind;
  ValueKind values;
  bool narrow_indices;
};

template <typename Weights, typename Index, ValueKind kKind>
CallKernel KernelFor(SumKind kind) {
  if (kind == SumKind::kGroupsBy4) return SumGroups<Weights, Index, kKind, 4, 2>;
  if (kind == SumKind::kGroupsBy8) return SumGroups<Weights, Index, kKind, 8, 3>;
  return kind == SumKind::kShared ? SumShared<Weights, Index, kKind> : SumWarpRows<Weights, Index, kKind>;
}

template <typename Weights, typename Index>
CallKernel KernelFor(const Variant& variant) {
  if (variant.values == ValueKind::kOnes) return KernelFor<Weights, Index, ValueKind::kOnes>(variant.kind);
  return variant.values == ValueKind::kFloat16 ? KernelFor<Weights, Index, ValueKind::kFloat16>(variant.kind)
                                               : KernelFor<Weights, Index, ValueKind::kFloat32>(variant.kind);
}

template <typename Weights>
CallKernel KernelFor(const Variant& variant) {
  return variant.narrow_indices ? KernelFor<Weights, uint16_t>(variant) : KernelFor<Weights, uint32_t>(variant);
}

CallKernel KernelFor(WeightType type, const Variant& variant) {
  switch (type) {
    case WeightType::kFloat32:
      return KernelFor<Float32Weights>(variant);
    case WeightType::kFloat16:
      return KernelFor<Float16Weights>(variant);
    case WeightType::kBfloat16:
      return KernelFor<Bfloat16Weights>(variant);
    case WeightType::kInt8:
      break;
  }
  return KernelFor<Int8Weights>(variant);
}

Variant VariantOf(const ScoreCall& call) {
  const ScoreArguments& a = call.input;
  const ValueKind values = a.values32 != nullptr   ? ValueKind::kFloat32
                           : a.values16 != nullptr ? ValueKind::kFloat16
                                                   : ValueKind::kOnes;
  return {call.plan.kind, values, a.indices16 != nullptr};
}

// Allows kernels of this kind all the shared memory there is.
cudaError_t AllowSharedMemory(CallKernel kernel) {
  int device = 0;
  int bytes = 0;
  if (const cudaError_t code = cudaGetDevice(&device); code != cudaSuccess) return code;
  if (const cudaError_t code = cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
      code != cudaSuccess) {
    return code;
  }
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

}  // namespace

cudaError_t LaunchOneOutput(const ScoreCall& call, cudaStream_t stream) {
  return LaunchCall(KernelFor(call.input.weight_type, VariantOf(call)), call.plan.blocks, call.plan.block_threads,
                    call.plan.shared_bytes, call, stream);
}

cudaError_t PrepareOneOutput() {
  for (const WeightType type : kWeightTypes) {
    for (const ValueKind values : {ValueKind::kOnes, ValueKind::kFloat16, ValueKind::kFloat32}) {
      for (const bool narrow : {false, true}) {
        for (const SumKind kind : {SumKind::kGroupsBy4, SumKind::kGroupsBy8, SumKind::kShared, SumKind::kWarpRows}) {
          const CallKernel kernel = KernelFor(type, {kind, values, narrow});
          if (const cudaError_t code = PrepareKernel(kernel); code != cudaSuccess) return code;
          if (kind != SumKind::kShared) continue;
          if (const cudaError_t code = AllowSharedMemory(kernel); code != cudaSuccess) return code;
        }
      }
    }
  }
  return cudaSuccess;
}

}  // namespace widelane::cuda
