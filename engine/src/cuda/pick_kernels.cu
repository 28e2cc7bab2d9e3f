// Best outputs from what lies in memory: raw sums, or the best of tiles. A block for each row.

#include "cuda/best_of_block.cuh"
#include "cuda/normalise.cuh"

namespace widelane::cuda {
namespace {

// Candidates of a row as its raw sums give them.
struct RawSums {
  const double* raw;

  __device__ __forceinline__ Candidate operator[](uint32_t i) const { return CandidateOf(raw[i], i); }
};

// Candidates of a row that its tiles have picked.
struct Picked {
  const Candidate* candidates;

  __device__ __forceinline__ Candidate operator[](uint32_t i) const { return candidates[i]; }
};

// Picks from `count` candidates, kPickItems for each thread at a time.
template <typename Source>
__device__ __forceinline__ void OfferAll(const Source& source, uint32_t count, BestOfBlock<kPickItems>& best) {
  for (uint32_t done = 0; done < count; done += kPickItems * blockDim.x) {
    Candidate items[kPickItems];
#pragma unroll
    for (uint32_t v = 0; v < kPickItems; ++v) {
      const uint32_t i = done + v * blockDim.x + threadIdx.x;
      items[v] = i < count ? source[i] : Candidate{0, 0};
    }
    best.Offer(items);
  }
}

// Sum of a row's shares in steps.
__device__ __forceinline__ int64_t ShareSum(Link link, const double* raw, uint32_t outputs, double max) {
  int64_t steps = 0;
  for (uint32_t k = threadIdx.x; k < outputs; k += blockDim.x) {
    steps += numeric::ShareSteps(numeric::Share(link, raw[k], max));
  }
  return Combine<true>(steps, blockDim.x, Sum());
}

__device__ __forceinline__ void PickRow(const ScoreCall& call, uint32_t row, const double* all_raw) {
  extern __shared__ uint4 shared[];
  const uint32_t outputs = call.input.outputs;
  const double* raw = all_raw + static_cast<size_t>(row) * outputs;
  BestOfBlock<kPickItems> best(BestMemoryAt(shared, call.best), call.best);
  OfferAll(RawSums{raw}, outputs, best);
  const Link link = call.input.link;
  if (numeric::IsPointwise(link)) {
    WriteBest(call, row, best.sorted(), [link](double x) { return numeric::PointwiseLink(link, x); });
    return;
  }
  const double max = RawOfCandidate(best.sorted()[0]);
  const int64_t sum = ShareSum(link, raw, outputs, max);
  WriteBest(call, row, best.sorted(), [=](double x) { return numeric::Normalised(numeric::Share(link, x, max), sum); });
}

__global__ void __launch_bounds__(kBlockThreads) Pick(const ScoreCall call, const double* raw) {
  PickRow(call, blockIdx.x, raw);
}

__global__ void __launch_bounds__(kBlockThreads) PickLongRows(const ScoreCall call, const double* raw) {
  const uint32_t row = call.input.long_rows[blockIdx.x] - call.input.first_row;
  if (row < call.input.rows) PickRow(call, row, raw);  // else it is of another step
}

__global__ void __launch_bounds__(kBlockThreads) PickCandidates(const ScoreCall call) {
  extern __shared__ uint4 shared[];
  if (EntriesOfRow(call.input, blockIdx.x).length > call.row_limit) return;  // has no candidates
  const uint32_t count = call.plan.tiles * call.best;
  BestOfBlock<kPickItems> best(BestMemoryAt(shared, call.best), call.best);
  OfferAll(Picked{call.candidates + static_cast<size_t>(blockIdx.x) * count}, count, best);
  const Link link = call.input.link;
  WriteBest(call, blockIdx.x, best.sorted(), [link](double x) { return numeric::PointwiseLink(link, x); });
}

// Threads and shared memory of a block that picks from `items` candidates.
struct PickBlock {
  uint32_t threads;
  size_t shared_bytes;
};
PickBlock BlockFor(const ScoreCall& call, uint64_t items) {
  const uint32_t threads = PickThreads(items);
  return {threads, BestMemoryBytes(threads, call.best)};
}

}  // namespace

cudaError_t LaunchPick(const ScoreCall& call, const double* raw, cudaStream_t stream) {
  const PickBlock block = BlockFor(call, call.input.outputs);
  Pick<<<call.input.rows, block.threads, block.shared_bytes, stream>>>(call, raw);
  return cudaGetLastError();
}

cudaError_t LaunchPickLongRows(const ScoreCall& call, const double* raw, cudaStream_t stream) {
  const PickBlock block = BlockFor(call, call.input.outputs);
  PickLongRows<<<call.input.cut.long_rows, block.threads, block.shared_bytes, stream>>>(call, raw);
  return cudaGetLastError();
}

cudaError_t LaunchPickCandidates(const ScoreCall& call, cudaStream_t stream) {
  const PickBlock block = BlockFor(call, uint64_t{call.plan.tiles} * call.best);
  PickCandidates<<<call.input.rows, block.threads, block.shared_bytes, stream>>>(call);
  return cudaGetLastError();
}

cudaError_t PreparePick() {
  for (const cudaError_t code : {PrepareKernel(Pick), PrepareKernel(PickLongRows), PrepareKernel(PickCandidates)}) {
    if (code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

}  // namespace widelane::cuda
