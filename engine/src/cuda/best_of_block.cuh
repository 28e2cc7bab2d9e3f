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

// The best of a warp's, for all its lanes.
__device__ __forceinline__ Candidate WarpBest(const Candidate& own) {
  const auto high = static_cast<uint32_t>(own.key >> 32);
  const auto low = static_cast<uint32_t>(own.key);
  const uint32_t best_high = WarpMax(high);
  const uint32_t best_low = WarpMax(high == best_high ? low : 0);
  const uint32_t best_id = ~WarpMax(high == best_high && low == best_low ? ~own.id : 0);
  return {static_cast<uint64_t>(best_high) << 32 | best_low, best_id};
}

// A block's shared memory for picking `best` of candidates that come kItems at a time from each thread.
struct BestMemory {
  Candidate* of_thread;  // [threads]
  Candidate* found;      // [best * (kItems + 1)]
  Candidate* sorted;     // [best]
};

constexpr size_t BestMemoryBytes(uint32_t threads, uint32_t best, uint32_t items) {
  return (threads + static_cast<size_t>(best) * (items + 2)) * sizeof(Candidate);
}

__device__ __forceinline__ BestMemory BestMemoryAt(void* memory, uint32_t best, uint32_t items) {
  auto* candidates = static_cast<Candidate*>(memory);
  Candidate* found = candidates + blockDim.x;
  return {candidates, found, found + best * (items + 1)};
}

// The `best`-th of all threads' own best, or no candidate when there are fewer. Called by one warp, `of_thread` is
// lost.
__device__ __forceinline__ Candidate ThresholdOfThreads(Candidate* of_thread, uint32_t best) {
  const uint32_t count = blockDim.x / kWarp;  // of this lane's
  Candidate* mine = of_thread + threadIdx.x % kWarp * count;
  for (uint32_t rank = 1;; ++rank) {
    uint32_t at = 0;
    Candidate own = mine[0];
    for (uint32_t i = 1; i < count; ++i) {
      if (Better(mine[i], own)) {
        own = mine[i];
        at = i;
      }
    }
    const Candidate top = WarpBest(own);
    if (rank == best || top.key == 0) return top;
    if (own.key == top.key && own.id == top.id) mine[at].key = 0;
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
    PrepareRound(own);
    Collect(items);
    Sort();
  }

  // Best first; after Offer.
  __device__ __forceinline__ const Candidate* sorted() const { return memory_.sorted; }
  __device__ __forceinline__ uint32_t size() const { return size_; }

 private:
  // Only the threads whose own best are among the block's `best` can have one of the best: at most best * kItems
  // candidates are then left, whatever the numbers.
  __device__ __forceinline__ void PrepareRound(const Candidate& own) {
    memory_.of_thread[threadIdx.x] = own;
    for (uint32_t i = threadIdx.x; i < size_; i += blockDim.x) memory_.found[i] = memory_.sorted[i];
    __syncthreads();
    if (threadIdx.x >= kWarp) return;
    Candidate threshold = ThresholdOfThreads(memory_.of_thread, best_);
    if (size_ == best_ && Better(memory_.sorted[best_ - 1], threshold)) threshold = memory_.sorted[best_ - 1];
    if (threadIdx.x == 0) {
      Shared().threshold = threshold;
      Shared().count = size_;
    }
  }

  __device__ __forceinline__ void Collect(const Candidate (&items)[kItems]) {
    __syncthreads();
    const Candidate threshold = Shared().threshold;
#pragma unroll
    for (uint32_t i = 0; i < kItems; ++i) {
      if (items[i].key == 0 || Better(threshold, items[i])) continue;
      memory_.found[atomicAdd(&Shared().count, 1U)] = items[i];
    }
    __syncthreads();
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
