// A step of a LaunchScore call as the kernels get it, and the launches that each .cu file offers to kernels.cc.

#ifndef WIDELANE_ENGINE_SRC_CUDA_SCORE_CALL_H_
#define WIDELANE_ENGINE_SRC_CUDA_SCORE_CALL_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/kernels.h"
#include "cuda/launch_plan.h"

namespace widelane::cuda {

// One of a row's best outputs. Equal keys rank by the lower id.
struct alignas(kCandidateBytes) Candidate {
  uint64_t key;  // of the raw sum, in its order; 0: none
  uint32_t id;   // twice the output, plus 1 for a raw sum of -0.0, which ranks like 0.0
};
static_assert(sizeof(Candidate) == kCandidateBytes, "launch_plan.h counts on it");

// Rows of a step are numbered from 0 in what follows; they are rows input.first_row + r of the input's arrays.
struct ScoreCall {
  ScoreArguments input;  // `rows` and `first_row` are the step's; its results are not used
  SumPlan plan;
  uint32_t row_limit = 0;

  // Where a row's sum goes, [rows][outputs] each; null: nowhere.
  int64_t* partial = nullptr;
  double* raw = nullptr;
  float* scores = nullptr;

  // Sums of long rows, [rows][outputs]; may be the same memory as `partial` or `raw`.
  int64_t* long_sums = nullptr;

  // Best outputs, [rows][best]. `candidates` [rows][tiles][best] is set where tiles of a row pick their own first.
  uint32_t best = 0;
  uint32_t* best_outputs = nullptr;
  float* best_scores = nullptr;
  Candidate* candidates = nullptr;
};

// sum_one_kernels.cu, sum_narrow_kernels.cu, sum_wide_kernels.cu: rows below the limit, by the plan's kind; the wide
// one picks best outputs if call.best > 0.
cudaError_t LaunchOneOutput(const ScoreCall& call, cudaStream_t stream);
cudaError_t LaunchNarrow(const ScoreCall& call, cudaStream_t stream);
cudaError_t LaunchWide(const ScoreCall& call, cudaStream_t stream);
// Pieces of long rows, to long_sums.
cudaError_t LaunchNarrowPieces(const ScoreCall& call, cudaStream_t stream);
cudaError_t LaunchWidePieces(const ScoreCall& call, cudaStream_t stream);

// finish_kernels.cu. Sets long rows' sums to zero, and turns them into what is wanted.
cudaError_t LaunchZeroLongRows(const ScoreCall& call, cudaStream_t stream);
cudaError_t LaunchFinishLongRows(const ScoreCall& call, cudaStream_t stream);
// Sums of all rows from parts of them, each [rows of the step][outputs].
struct Partials {
  const int64_t* sums[kMaxPartials];
  uint32_t count;
};
cudaError_t LaunchAddPartials(const ScoreCall& call, const Partials& partials, cudaStream_t stream);
// Scores from raw sums: of pointwise links, and of those that look at all outputs of a row.
cudaError_t LaunchPointwise(const ScoreCall& call, const double* raw, cudaStream_t stream);
cudaError_t LaunchNormalise(const ScoreCall& call, const double* raw, float* scores, cudaStream_t stream);

// pick_kernels.cu. Best outputs of all rows, or of the long ones, from raw sums [rows of the step][outputs].
cudaError_t LaunchPick(const ScoreCall& call, const double* raw, cudaStream_t stream);
cudaError_t LaunchPickLongRows(const ScoreCall& call, const double* raw, cudaStream_t stream);
// Of all rows, from call.candidates.
cudaError_t LaunchPickCandidates(const ScoreCall& call, cudaStream_t stream);

// Loads each file's kernels onto the current device.
cudaError_t PrepareOneOutput();
cudaError_t PrepareNarrow();
cudaError_t PrepareWide();
cudaError_t PrepareFinish();
cudaError_t PreparePick();

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_SCORE_CALL_H_
