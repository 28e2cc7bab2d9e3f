// Host memory for slabs in tests: ordinary, counted, and refused on demand.

#ifndef WIDELANE_TESTS_ENGINE_PLAIN_MEMORY_H_
#define WIDELANE_TESTS_ENGINE_PLAIN_MEMORY_H_

#include <cstdlib>

#include "widelane/engine/slab.h"

namespace widelane::test {

class PlainMemory : public HostMemory {
 public:
  // Refuses from the `allowed` + 1st block on.
  explicit PlainMemory(int allowed = 1000, int* live = nullptr) : allowed_(allowed), live_(live) {}

  std::byte* Allocate(size_t bytes) override {
    if (allowed_ == 0) return nullptr;
    --allowed_;
    if (live_ != nullptr) ++*live_;
    return static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
  }

  void Free(std::byte* data, size_t) override {
    if (live_ != nullptr) --*live_;
    std::free(data);
  }

 private:
  int allowed_;
  int* live_;
};

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_ENGINE_PLAIN_MEMORY_H_
