// Failed calls of the CUDA runtime, and the one place that turns them into statuses.

#ifndef WIDELANE_ENGINE_SRC_CUDA_CUDA_ERROR_H_
#define WIDELANE_ENGINE_SRC_CUDA_CUDA_ERROR_H_

#include <cuda_runtime_api.h>

#include <string>

#include "absl/status/status.h"

namespace widelane::cuda {

struct CudaError {
  const char* call;  // source text of the call
  const char* file;
  int line;
  cudaError_t code;
  int device;  // position among the visible GPUs, or -1 before there is one
};

// "CUDA error 100 (cudaErrorNoDevice): no CUDA-capable device is detected".
std::string Describe(cudaError_t code);

// RESOURCE_EXHAUSTED when memory ran out, else INTERNAL. Clears the thread's last error, so that the check after a
// later launch does not find it again.
absl::Status ToStatus(const CudaError& error);

}  // namespace widelane::cuda

// Returns a Status from the enclosing function when `call` fails on `device`.
#define WIDELANE_CUDA_RETURN_IF_ERROR(call, device)                                        \
  do {                                                                                     \
    if (const cudaError_t cuda_code = (call); cuda_code != cudaSuccess) {                  \
      return ::widelane::cuda::ToStatus({#call, __FILE__, __LINE__, cuda_code, (device)}); \
    }                                                                                      \
  } while (false)

#endif  // WIDELANE_ENGINE_SRC_CUDA_CUDA_ERROR_H_
