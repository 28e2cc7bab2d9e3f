#include "cuda/cusparse_product.h"

#include <array>
#include <utility>

namespace widelane::cuda {
namespace {

constexpr std::array<cusparseSpMVAlg_t, 3> kVectorAlgorithms = {CUSPARSE_SPMV_ALG_DEFAULT, CUSPARSE_SPMV_CSR_ALG1,
                                                                CUSPARSE_SPMV_CSR_ALG2};
constexpr std::array<cusparseSpMMAlg_t, 4> kMatrixAlgorithms = {CUSPARSE_SPMM_ALG_DEFAULT, CUSPARSE_SPMM_CSR_ALG1,
                                                                CUSPARSE_SPMM_CSR_ALG2, CUSPARSE_SPMM_CSR_ALG3};
constexpr cusparseOperation_t kAsIs = CUSPARSE_OPERATION_NON_TRANSPOSE;
constexpr float kOne = 1.0F;
constexpr float kZero = 0.0F;

}  // namespace

absl::StatusOr<CusparseProduct> CusparseProduct::Create(const CusparseLibrary& library, cusparseHandle_t handle,
                                                        const ProductShape& shape) {
  CusparseProduct product(library, handle);
  absl::Status status = product.CreateRows(shape);
  if (status.ok()) status = shape.outputs == 1 ? product.CreateVectors(shape) : product.CreateMatrices(shape);
  if (!status.ok()) return status;
  return product;
}

absl::Status CusparseProduct::CreateRows(const ProductShape& shape) {
  cusparseSpMatDescr_t rows = nullptr;
  const cusparseStatus_t code =
      library_->CreateCsr(&rows, shape.rows, shape.features, shape.entries, shape.offsets, shape.columns, shape.values,
                          CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F);
  if (code == CUSPARSE_STATUS_SUCCESS) rows_ = {rows, DestroyDescriptor{library_}};
  return library_->ToStatus(code, "cusparseCreateCsr");
}

absl::Status CusparseProduct::CreateVectors(const ProductShape& shape) {
  cusparseDnVecDescr_t x = nullptr;
  cusparseDnVecDescr_t y = nullptr;
  cusparseStatus_t code = library_->CreateDnVec(&x, shape.features, shape.weights, CUDA_R_32F);
  if (code == CUSPARSE_STATUS_SUCCESS) {
    x_ = {x, DestroyDescriptor{library_}};
    code = library_->CreateDnVec(&y, shape.rows, shape.sums, CUDA_R_32F);
  }
  if (code == CUSPARSE_STATUS_SUCCESS) y_ = {y, DestroyDescriptor{library_}};
  return library_->ToStatus(code, "cusparseCreateDnVec");
}

absl::Status CusparseProduct::CreateMatrices(const ProductShape& shape) {
  cusparseDnMatDescr_t b = nullptr;
  cusparseDnMatDescr_t c = nullptr;
  cusparseStatus_t code = library_->CreateDnMat(&b, shape.features, shape.outputs, shape.outputs, shape.weights,
                                                CUDA_R_32F, CUSPARSE_ORDER_ROW);
  if (code == CUSPARSE_STATUS_SUCCESS) {
    b_ = {b, DestroyDescriptor{library_}};
    code =
        library_->CreateDnMat(&c, shape.rows, shape.outputs, shape.outputs, shape.sums, CUDA_R_32F, CUSPARSE_ORDER_ROW);
  }
  if (code == CUSPARSE_STATUS_SUCCESS) c_ = {c, DestroyDescriptor{library_}};
  return library_->ToStatus(code, "cusparseCreateDnMat");
}

absl::StatusOr<size_t> CusparseProduct::WorkspaceBytes(int algorithm) const {
  const auto choice = static_cast<size_t>(algorithm);
  size_t bytes = 0;
  const cusparseStatus_t code =
      vector() ? library_->SpMVBufferSize(handle_, kAsIs, &kOne, rows_.get(), x_.get(), &kZero, y_.get(), CUDA_R_32F,
                                          kVectorAlgorithms[choice], &bytes)
               : library_->SpMMBufferSize(handle_, kAsIs, kAsIs, &kOne, rows_.get(), b_.get(), &kZero, c_.get(),
                                          CUDA_R_32F, kMatrixAlgorithms[choice], &bytes);
  if (code != CUSPARSE_STATUS_SUCCESS) return library_->ToStatus(code, "the question for a workspace");
  return bytes;
}

absl::Status CusparseProduct::Prepare(int algorithm, void* workspace) const {
  if (vector() ? library_->SpMVPreprocess == nullptr : library_->SpMMPreprocess == nullptr) return absl::OkStatus();
  const cusparseStatus_t code = Call(library_->SpMVPreprocess, library_->SpMMPreprocess, algorithm, workspace);
  // Not every algorithm has something to prepare.
  if (code == CUSPARSE_STATUS_NOT_SUPPORTED) return absl::OkStatus();
  return library_->ToStatus(code, "the preparation of a product");
}

absl::Status CusparseProduct::Run(int algorithm, void* workspace) const {
  return library_->ToStatus(Call(library_->SpMV, library_->SpMM, algorithm, workspace),
                            vector() ? "cusparseSpMV" : "cusparseSpMM");
}

cusparseStatus_t CusparseProduct::Call(decltype(&::cusparseSpMV) spmv, decltype(&::cusparseSpMM) spmm, int algorithm,
                                       void* workspace) const {
  const auto choice = static_cast<size_t>(algorithm);
  if (vector()) {
    return spmv(handle_, kAsIs, &kOne, rows_.get(), x_.get(), &kZero, y_.get(), CUDA_R_32F, kVectorAlgorithms[choice],
                workspace);
  }
  return spmm(handle_, kAsIs, kAsIs, &kOne, rows_.get(), b_.get(), &kZero, c_.get(), CUDA_R_32F,
              kMatrixAlgorithms[choice], workspace);
}

}  // namespace widelane::cuda
