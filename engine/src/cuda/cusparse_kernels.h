// From a batch's compact layout to what cuSPARSE takes, and back.
//
// Each function works on the thread's current device and returns the runtime's code; nothing here waits.

#ifndef WIDELANE_ENGINE_SRC_CUDA_CUSPARSE_KERNELS_H_
#define WIDELANE_ENGINE_SRC_CUDA_CUSPARSE_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/kernels.h"
#include "widelane/engine/model_types.h"

namespace widelane::cuda {

// Stored numbers as float32; an int8's scale is left out.
cudaError_t LaunchWidenWeights(WeightType type, const void* from, size_t count, float* to, cudaStream_t stream);
cudaError_t LaunchWidenIndices(const uint16_t* from, size_t count, int32_t* to, cudaStream_t stream);
cudaError_t LaunchWidenValues(const uint16_t* from, size_t count, float* to, cudaStream_t stream);
cudaError_t LaunchFillOnes(size_t count, float* to, cudaStream_t stream);
// to[r] = row_begin[r] - row_begin[0], for `count` offsets. `row_begin` may be in host memory.
cudaError_t LaunchRebaseOffsets(const uint32_t* row_begin, size_t count, int32_t* to, cudaStream_t stream);
// raw = bias + scale * (sum + the context's), [rows][outputs]; once more to `copy` unless that is null. Rows, and what
// is known of them but their entries, are as in `arguments`.
cudaError_t LaunchRawFromSums(const ScoreArguments& arguments, const float* sums, double* raw, double* copy,
                              cudaStream_t stream);

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_CUSPARSE_KERNELS_H_
