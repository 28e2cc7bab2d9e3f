#include "cuda/cuda_error.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace widelane::cuda {
namespace {

// Source paths differ from machine to machine; the name is enough to find the place.
absl::string_view BaseName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace

std::string Describe(cudaError_t code) {
  return absl::StrCat("CUDA error ", static_cast<int>(code), " (", cudaGetErrorName(code),
                      "): ", cudaGetErrorString(code));
}

absl::Status ToStatus(const CudaError& error) {
  (void)cudaGetLastError();
  const std::string where = error.device < 0 ? "" : absl::StrCat("GPU ", error.device, ": ");
  const std::string message =
      absl::StrCat(where, Describe(error.code), " in ", error.call, " at ", BaseName(error.file), ":", error.line);
  if (error.code == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

}  // namespace widelane::cuda
