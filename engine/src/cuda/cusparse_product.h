// One product of a batch and a model's weights by cuSPARSE: SpMV for one output, SpMM for several.

#ifndef WIDELANE_ENGINE_SRC_CUDA_CUSPARSE_PRODUCT_H_
#define WIDELANE_ENGINE_SRC_CUDA_CUSPARSE_PRODUCT_H_

#include <cusparse.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/cusparse_library.h"

namespace widelane::cuda {

// Device memory. The rows have entries; features and outputs include the zero feature.
struct ProductShape {
  int64_t rows = 0;
  int64_t features = 0;
  int64_t outputs = 0;
  int64_t entries = 0;
  int32_t* offsets = nullptr;  // [rows + 1], from 0
  int32_t* columns = nullptr;  // [entries]
  float* values = nullptr;     // [entries]
  float* weights = nullptr;    // [features][outputs]
  float* sums = nullptr;       // [rows][outputs]
};

struct DestroyDescriptor {
  const CusparseLibrary* library = nullptr;
  void operator()(cusparseSpMatDescr_t rows) const { (void)library->DestroySpMat(rows); }
  void operator()(cusparseDnVecDescr_t vector) const { (void)library->DestroyDnVec(vector); }
  void operator()(cusparseDnMatDescr_t matrix) const { (void)library->DestroyDnMat(matrix); }
};

class CusparseProduct {
 public:
  // How many algorithms there are to choose from.
  static int Algorithms(int64_t outputs) { return outputs == 1 ? 3 : 4; }

  static absl::StatusOr<CusparseProduct> Create(const CusparseLibrary& library, cusparseHandle_t handle,
                                                const ProductShape& shape);

  // Bytes of device memory that an algorithm works in, for the next two.
  absl::StatusOr<size_t> WorkspaceBytes(int algorithm) const;
  // What need not be done again for other values. May do nothing.
  absl::Status Prepare(int algorithm, void* workspace) const;
  absl::Status Run(int algorithm, void* workspace) const;

 private:
  CusparseProduct(const CusparseLibrary& library, cusparseHandle_t handle) : library_(&library), handle_(handle) {}
  absl::Status CreateRows(const ProductShape& shape);
  absl::Status CreateVectors(const ProductShape& shape);
  absl::Status CreateMatrices(const ProductShape& shape);
  bool vector() const { return x_ != nullptr; }
  cusparseStatus_t Call(decltype(&::cusparseSpMV) spmv, decltype(&::cusparseSpMM) spmm, int algorithm,
                        void* workspace) const;

  const CusparseLibrary* library_;
  cusparseHandle_t handle_;
  std::unique_ptr<cusparseSpMatDescr, DestroyDescriptor> rows_;
  std::unique_ptr<cusparseDnVecDescr, DestroyDescriptor> x_;
  std::unique_ptr<cusparseDnVecDescr, DestroyDescriptor> y_;
  std::unique_ptr<cusparseDnMatDescr, DestroyDescriptor> b_;
  std::unique_ptr<cusparseDnMatDescr, DestroyDescriptor> c_;
};

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_CUSPARSE_PRODUCT_H_
