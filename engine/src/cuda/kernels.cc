#include "cuda/kernels.h"

#include "numeric.h"

namespace widelane::cuda {

cudaError_t LaunchScore(const ScoreArguments& arguments, cudaStream_t stream) {
  const bool normalise = arguments.scores != nullptr && !numeric::IsPointwise(arguments.link);
  ScoreArguments sums = arguments;
  if (normalise) sums.scores = nullptr;  // written by LaunchNormalise, from raw sums

  if (sums.cut.pieces > 0) {
    const size_t bytes = size_t{sums.cut.long_rows} * sums.outputs * sizeof(int64_t);
    const cudaError_t code = cudaMemsetAsync(sums.long_sums, 0, bytes, stream);
    if (code != cudaSuccess) return code;
  }
  if (const cudaError_t code = LaunchSums(sums, stream); code != cudaSuccess) return code;
  if (sums.cut.pieces > 0) {
    if (const cudaError_t code = LaunchFinishLongRows(sums, stream); code != cudaSuccess) return code;
  }
  return normalise ? LaunchNormalise(arguments, stream) : cudaSuccess;
}

cudaError_t PrepareKernels() {
  const cudaError_t code = PrepareSums();
  return code != cudaSuccess ? code : PrepareFinish();
}

}  // namespace widelane::cuda
