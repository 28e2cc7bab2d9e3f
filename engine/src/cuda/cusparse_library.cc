#include "cuda/cusparse_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace widelane::cuda {
namespace {

constexpr const char* kLibrary = "libcusparse.so.12";

absl::Status LoaderError() {
  const char* text = dlerror();
  return absl::FailedPreconditionError(absl::StrCat(kLibrary, ": ", text == nullptr ? "not found" : text));
}

template <typename Function>
absl::Status Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function == nullptr ? LoaderError() : absl::OkStatus();
}

absl::StatusOr<CusparseLibrary> Open() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return LoaderError();
  CusparseLibrary found;
  absl::Status status = Find(library, "cusparseCreate", found.Create);
  status.Update(Find(library, "cusparseDestroy", found.Destroy));
  status.Update(Find(library, "cusparseSetStream", found.SetStream));
  status.Update(Find(library, "cusparseGetErrorString", found.GetErrorString));
  status.Update(Find(library, "cusparseCreateCsr", found.CreateCsr));
  status.Update(Find(library, "cusparseDestroySpMat", found.DestroySpMat));
  status.Update(Find(library, "cusparseCreateDnVec", found.CreateDnVec));
  status.Update(Find(library, "cusparseDestroyDnVec", found.DestroyDnVec));
  status.Update(Find(library, "cusparseCreateDnMat", found.CreateDnMat));
  status.Update(Find(library, "cusparseDestroyDnMat", found.DestroyDnMat));
  status.Update(Find(library, "cusparseSpMV_bufferSize", found.SpMVBufferSize));
  status.Update(Find(library, "cusparseSpMV", found.SpMV));
  status.Update(Find(library, "cusparseSpMM_bufferSize", found.SpMMBufferSize));
  status.Update(Find(library, "cusparseSpMM", found.SpMM));
  if (!status.ok()) return status;
  (void)Find(library, "cusparseSpMV_preprocess", found.SpMVPreprocess);
  (void)Find(library, "cusparseSpMM_preprocess", found.SpMMPreprocess);
  return found;
}

}  // namespace

absl::StatusOr<const CusparseLibrary*> CusparseLibrary::Get() {
  static const absl::StatusOr<CusparseLibrary> library = Open();
  if (!library.ok()) return library.status();
  return &*library;
}

absl::Status CusparseLibrary::ToStatus(cusparseStatus_t code, const char* call) const {
  if (code == CUSPARSE_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("cuSPARSE error ", static_cast<int>(code), " (", GetErrorString(code), ") in ", call));
}

}  // namespace widelane::cuda
