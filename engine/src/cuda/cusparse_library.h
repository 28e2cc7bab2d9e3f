// cuSPARSE, opened at run time: it weighs more than everything else together, and only comparisons need it.

#ifndef WIDELANE_ENGINE_SRC_CUDA_CUSPARSE_LIBRARY_H_
#define WIDELANE_ENGINE_SRC_CUDA_CUSPARSE_LIBRARY_H_

#include <cusparse.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace widelane::cuda {

// The functions in use, named as in cuSPARSE. The last two are null where the library does not have them.
struct CusparseLibrary {
  decltype(&::cusparseCreate) Create = nullptr;
  decltype(&::cusparseDestroy) Destroy = nullptr;
  decltype(&::cusparseSetStream) SetStream = nullptr;
  decltype(&::cusparseGetErrorString) GetErrorString = nullptr;
  decltype(&::cusparseCreateCsr) CreateCsr = nullptr;
  decltype(&::cusparseDestroySpMat) DestroySpMat = nullptr;
  decltype(&::cusparseCreateDnVec) CreateDnVec = nullptr;
  decltype(&::cusparseDestroyDnVec) DestroyDnVec = nullptr;
  decltype(&::cusparseCreateDnMat) CreateDnMat = nullptr;
  decltype(&::cusparseDestroyDnMat) DestroyDnMat = nullptr;
  decltype(&::cusparseSpMV_bufferSize) SpMVBufferSize = nullptr;
  decltype(&::cusparseSpMV) SpMV = nullptr;
  decltype(&::cusparseSpMM_bufferSize) SpMMBufferSize = nullptr;
  decltype(&::cusparseSpMM) SpMM = nullptr;
  // Take what the products take.
  decltype(&::cusparseSpMV) SpMVPreprocess = nullptr;
  decltype(&::cusparseSpMM) SpMMPreprocess = nullptr;

  // Opens the library at the first call and keeps it. Any thread. Errors: FAILED_PRECONDITION naming it and what the
  // loader says.
  static absl::StatusOr<const CusparseLibrary*> Get();

  absl::Status ToStatus(cusparseStatus_t code, const char* call) const;
};

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_CUSPARSE_LIBRARY_H_
