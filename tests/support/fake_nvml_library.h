// The test's side of the fake libnvidia-ml. One at a time.

#ifndef WIDELANE_TESTS_SUPPORT_FAKE_NVML_LIBRARY_H_
#define WIDELANE_TESTS_SUPPORT_FAKE_NVML_LIBRARY_H_

#include <dlfcn.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/support/check.h"
#include "tests/support/fake_nvml.h"
#include "tests/support/process.h"

namespace widelane::test {

class FakeNvmlLibrary {
 public:
  // Everything succeeds, for these GPUs (two at most).
  explicit FakeNvmlLibrary(const std::vector<std::string>& uuids) {
    library_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    Require(library_ != nullptr, path_);
    nvml_ = static_cast<FakeNvml*>(dlsym(library_, "fake_nvml"));
    Require(nvml_ != nullptr, "its variable");
    *nvml_ = {};
    for (size_t i = 0; i < uuids.size(); ++i) uuids[i].copy(nvml_->uuid[i], sizeof(nvml_->uuid[i]) - 1);
  }
  ~FakeNvmlLibrary() { dlclose(library_); }
  FakeNvmlLibrary(const FakeNvmlLibrary&) = delete;
  FakeNvmlLibrary& operator=(const FakeNvmlLibrary&) = delete;

  const std::string& path() const { return path_; }
  void Set(int FakeNvml::*number, int value) { __atomic_store_n(&(nvml_->*number), value, __ATOMIC_SEQ_CST); }
  int Get(int FakeNvml::*number) const { return __atomic_load_n(&(nvml_->*number), __ATOMIC_SEQ_CST); }
  void SetGpuCode(size_t gpu, int code) { __atomic_store_n(&nvml_->gpu_code[gpu], code, __ATOMIC_SEQ_CST); }

 private:
  const std::string path_ = BuiltLibrary("fake_nvml/libnvidia-ml.so.1");
  void* library_ = nullptr;
  FakeNvml* nvml_ = nullptr;
};

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_FAKE_NVML_LIBRARY_H_
