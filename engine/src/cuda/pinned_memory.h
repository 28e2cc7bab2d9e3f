// Host memory that GPUs copy from and to without the driver's own copy in between.

#ifndef WIDELANE_ENGINE_SRC_CUDA_PINNED_MEMORY_H_
#define WIDELANE_ENGINE_SRC_CUDA_PINNED_MEMORY_H_

#include <cstddef>

#include "widelane/engine/slab.h"

namespace widelane::cuda {

// Any thread. Portable: pinned for every GPU, not only for `device`, through which it is allocated.
class PinnedMemory : public HostMemory {
 public:
  explicit PinnedMemory(int device) : device_(device) {}

  std::byte* Allocate(size_t bytes) override;
  void Free(std::byte* data, size_t bytes) override;

 private:
  const int device_;
};

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_PINNED_MEMORY_H_
