// The best outputs of a row, picked by a block. Comparisons are by raw sum, then by output, so that no two are equal
// and every way of picking gives the same (engine/include/widelane/engine/outputs.h, TopK).

#ifndef WIDELANE_ENGINE_SRC_CUDA_BEST_OF_BLOCK_CUH_
#define WIDELANE_ENGINE_SRC_CUDA_BEST_OF_BLOCK_CUH_

#include <cstdint>

#include "cuda/device_code.cuh"

namespace widelane::cuda {

// Raw sums as integers of the same order; never 0, and the same for 0.0 and -0.0.
__device__ __forceinline__ Candidate CandidateOf(double raw, uint32_t output) {
  const auto bits = static_cast<uint64_t>(numeric::BitsOf(raw + 0.0));  // -0.0 + 0.0 is 0.0
  const uint64_t sign = uint64_t{1} << 63;
  const bool negative_zero = raw == 0 && numeric::BitsOf(raw) != 0;
  return {(bits & sign) != 0 ? ~bits : bits | sign, 2 * output + (negative_zero ? 1U : 0U)};
}

__device__ __forceinline__ double RawOfCandidate(const Candidate& candidate) {
  if (candidate.id % 2 != 0) return -0.0;
  const uint64_t sign = uint64_t{1} << 63;
  const uint64_t key = candidate.key;
  return numeric::FromBits(static_cast<int64_t>((key & sign) != 0 ? key ^ sign : ~key));
}

__device__ __forceinline__ bool Better(const Candidate& a, const Candidate& b) {
  return a.key > b.key || (a.key == b.key && a.id < b.id);
}

__device__ __forceinline__ uint32_t WarpMax(uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kAllLanes, value);
#else
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = max(value, __shfl_xor_sync(kAllLanes, value, offset));
  }
  return value;
#endif
}

// Up to this many are found from the best of each of a warp's lanes; more by halving.
constexpr uint32_t kMaxFromLanes = 16;

// Candidates that are looked at more closely once most are out.
WIDELANE_HOST_DEVICE constexpr uint32_t FoundRoom(uint32_t best) { return best + 32 > 128 ? best + 32 : 128; }

// A block's shared memory for picking `best`.
struct BestMemory {
  Candidate* of_thread;  // [threads]; where `found` lies, and no longer needed then
  Candidate* found;      // [FoundRoom(best)]
  Candidate* sorted;     // [best]
};

constexpr size_t BestMemoryBytes(uint32_t threads, uint32_t best) {
  const uint32_t room = FoundRoom(best);
  return ((threads > room ? threads : room) + best) * sizeof(Candidate);
}

__device__ __forceinline__ BestMemory BestMemoryAt(void* memory, uint32_t best) {
  auto* candidates = static_cast<Candidate*>(memory);
  return {candidates, candidates, candidates + max(blockDim.x, FoundRoom(best))};
}

// Whether the lane has the best of its warp, of those that are `in`. Called by all lanes.
__device__ __forceinline__ bool IsWarpBest(const Candidate& own, bool in) {
  const auto high = static_cast<uint32_t>(own.key >> 32);
  const auto low = static_cast<uint32_t>(own.key);
  const uint32_t best_high = WarpMax(in ? high : 0);
  bool left = in && high == best_high;
  if (__popc(__ballot_sync(kAllLanes, left)) <= 1) return left;
  const uint32_t best_low = WarpMax(left ? low : 0);
  left = left && low == best_low;
  const uint32_t best_id = ~WarpMax(left ? ~own.id : 0);
  return left && own.id == best_id;
}

// What all lanes get of lane `from`.
__device__ __forceinline__ Candidate OfLane(const Candidate& own, uint32_t from) {
  const auto lane = static_cast<int>(from);
  const uint32_t high = __shfl_sync(kAllLanes, static_cast<uint32_t>(own.key >> 32), lane);
  const uint32_t low = __shfl_sync(kAllLanes, static_cast<uint32_t>(own.key), lane);
  return {static_cast<uint64_t>(high) << 32 | low, __shfl_sync(kAllLanes, own.id, lane)};
}

// The `best`-th best of what lanes have, each the best of the threads that have its number in their warp; no candidate
// when there are fewer. Called by one warp.
__device__ __forceinline__ Candidate ThresholdFromLanes(const Candidate* of_thread, uint32_t best) {
  Candidate own = of_thread[threadIdx.x];
  for (uint32_t i = threadIdx.x + kWarp; i < blockDim.x; i += kWarp) {
    if (Better(of_thread[i], own)) own = of_thread[i];
  }
  bool in = own.key != 0;
  for (uint32_t rank = 1;; ++rank) {
    const bool top = IsWarpBest(own, in);
    const uint32_t who = __ballot_sync(kAllLanes, top);
    if (who == 0) return {0, 0};
    if (rank == best) return OfLane(own, static_cast<uint32_t>(__ffs(static_cast<int>(who))) - 1);
    if (top) in = false;
  }
}

// Keeps the best of all candidates offered to it. All threads of the block call each function.
template <uint32_t kItems>
class BestOfBlock {
 public:
  __device__ __forceinline__ BestOfBlock(const BestMemory& memory, uint32_t best) : memory_(memory), best_(best) {}

  // Candidates without a key do not count.
  __device__ __forceinline__ void Offer(const Candidate (&items)[kItems]) {
    Candidate own = items[0];
#pragma unroll
    for (uint32_t i = 1; i < kItems; ++i) {
      if (Better(items[i], own)) own = items[i];
    }
    // Once there are `best`, most rounds have nothing better; the barrier ends the round before as well.
    const bool matters = own.key != 0 && (size_ < best_ || Better(own, memory_.sorted[best_ - 1]));
    if (__syncthreads_or(matters) == 0) return;
    if (best_ <= kMaxFromLanes) FindFromLanes(own);
    if (best_ > kMaxFromLanes || Collect(items) > FoundRoom(best_)) {
      FindByHalving(items);
      Collect(items);
    }
    Sort();
  }

  // Best first; after Offer.
  __device__ __forceinline__ const Candidate* sorted() const { return memory_.sorted; }
  __device__ __forceinline__ uint32_t size() const { return size_; }

 private:
  // Each finds a threshold that at least `best` candidates are not worse than, or all; usually few are more.
  __device__ __forceinline__ void FindFromLanes(const Candidate& own) {
    memory_.of_thread[threadIdx.x] = own;
    __syncthreads();
    if (threadIdx.x >= kWarp) return;
    Candidate threshold = ThresholdFromLanes(memory_.of_thread, best_);
    if (size_ == best_ && Better(memory_.sorted[best_ - 1], threshold)) threshold = memory_.sorted[best_ - 1];
    if (threadIdx.x == 0) Shared().threshold = threshold;
  }

  // Bit by bit from the highest: a bit is set if enough candidates are left. Ends when they fit `found`.
  __device__ __forceinline__ void FindByHalving(const Candidate (&items)[kItems]) {
    Candidate threshold = {0, ~0U};
    if (Fits(items, threshold, threshold)) return;
    for (uint64_t bit = uint64_t{1} << 63; bit != 0; bit /= 2) {
      const Candidate tried = {threshold.key | bit, ~0U};
      if (Fits(items, tried, threshold)) return;
    }
    // All who have the key would be too many: lower outputs only.
    for (uint32_t bit = 1U << 31; bit != 0; bit /= 2) {
      const Candidate tried = {threshold.key, threshold.id & ~bit};
      if (Fits(items, tried, threshold)) return;
    }
  }

  // Whether those not worse than what is tried fit `found`. It becomes the threshold, unless it leaves too few
  // and is not the first, which leaves all.
  __device__ __forceinline__ bool Fits(const Candidate (&items)[kItems], const Candidate& tried, Candidate& threshold) {
    uint32_t own = 0;
    ForEachCandidate(items, tried, [&own](const Candidate&) { ++own; });
    const uint32_t count = CountOfBlock(own);
    if (count < best_ && tried.key != 0) return false;
    threshold = tried;
    if (threadIdx.x == 0) Shared().threshold = threshold;
    return count <= FoundRoom(best_);
  }

  // Adds over the block.
  __device__ __forceinline__ uint32_t CountOfBlock(uint32_t own) {
    const uint32_t of_warp = WarpSum(own);
    if (threadIdx.x % kWarp == 0) Shared().of_warp[threadIdx.x / kWarp] = of_warp;
    __syncthreads();
    uint32_t count = 0;
    for (uint32_t warp = 0; warp < blockDim.x / kWarp; ++warp) count += Shared().of_warp[warp];
    __syncthreads();
    return count;
  }

  // Calls with the thread's candidates that are not worse than the threshold, those already sorted among them.
  template <typename Use>
  __device__ __forceinline__ void ForEachCandidate(const Candidate (&items)[kItems], const Candidate& threshold,
                                                   const Use& use) const {
#pragma unroll
    for (uint32_t i = 0; i < kItems; ++i) {
      if (items[i].key != 0 && !Better(threshold, items[i])) use(items[i]);
    }
    for (uint32_t i = threadIdx.x; i < size_; i += blockDim.x) {
      if (!Better(threshold, memory_.sorted[i])) use(memory_.sorted[i]);
    }
  }

  // Brings together what is not worse than the threshold, as far as there is room, and counts it.
  __device__ __forceinline__ uint32_t Collect(const Candidate (&items)[kItems]) {
    if (threadIdx.x == 0) Shared().count = 0;
    __syncthreads();
    const uint32_t room = FoundRoom(best_);
    const Candidate threshold = Shared().threshold;
    ForEachCandidate(items, threshold, [&](const Candidate& candidate) {
      const uint32_t at = atomicAdd(&Shared().count, 1U);
      if (at < room) memory_.found[at] = candidate;
    });
    __syncthreads();
    return Shared().count;
  }

  // Each candidate's place is the number of better ones.
  __device__ __forceinline__ void Sort() {
    const uint32_t count = Shared().count;
    for (uint32_t c = threadIdx.x; c < count; c += blockDim.x) {
      const Candidate candidate = memory_.found[c];
      uint32_t rank = 0;
      for (uint32_t i = 0; i < count; ++i) rank += Better(memory_.found[i], candidate) ? 1 : 0;
      if (rank < best_) memory_.sorted[rank] = candidate;
    }
    size_ = min(count, best_);
    __syncthreads();
  }

  struct Round {
    Candidate threshold;
    uint32_t count;
    uint32_t of_warp[kBlockThreads / kWarp];
  };
  static __device__ __forceinline__ Round& Shared() {
    __shared__ Round round;
    return round;
  }

  const BestMemory memory_;
  const uint32_t best_;
  uint32_t size_ = 0;
};

// Writes a row's best outputs and scores, `score` of each raw sum. Called by all threads of the block.
template <typename Score>
__device__ __forceinline__ void WriteBest(const ScoreCall& call, uint32_t step_row, const Candidate* sorted,
                                          const Score& score) {
  const size_t first = static_cast<size_t>(step_row) * call.best;
  for (uint32_t i = threadIdx.x; i < call.best; i += blockDim.x) {
    call.best_outputs[first + i] = sorted[i].id / 2;
    call.best_scores[first + i] = static_cast<float>(score(RawOfCandidate(sorted[i])));
  }
}

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_BEST_OF_BLOCK_CUH_
