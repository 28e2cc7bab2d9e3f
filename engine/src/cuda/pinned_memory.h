// Host memory for slabs that every GPU copies from without the driver's own copy in between, and that kernels read and
// write where it lies.

#ifndef WIDELANE_ENGINE_SRC_CUDA_PINNED_MEMORY_H_
#define WIDELANE_ENGINE_SRC_CUDA_PINNED_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include "widelane/engine/slab.h"

namespace widelane::cuda {

// Any thread. Pinned for every GPU and mapped into each one's addresses. On a machine with several nodes of memory the
// slabs go round the GPUs in use, each into memory near its GPU.
class PinnedMemory : public HostMemory {
 public:
  struct Home {
    int device;  // position among the visible GPUs
    int node;    // -1: not told
  };
  // `homes` of the GPUs in use, at least one. `near`: place memory by node; every GPU must use host addresses as they
  // are (NearMemoryWorks).
  PinnedMemory(std::vector<Home> homes, bool near) : homes_(std::move(homes)), near_(near) {}

  std::byte* Allocate(size_t bytes) override;
  void Free(std::byte* data, size_t bytes) override;

 private:
  std::byte* AllocateNear(const Home& home, size_t bytes);

  const std::vector<Home> homes_;
  const bool near_;
  std::atomic<size_t> next_{0};
};

// Whether there are several nodes, and kernels on all of these GPUs may use the address of memory that was pinned after
// it was allocated.
bool NearMemoryWorks(const std::vector<PinnedMemory::Home>& homes);

// Stops the process, naming `array`, unless `data` is pinned: copies from other memory wait for the driver's own.
void DieUnlessPinned(const void* data, const char* array);

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_PINNED_MEMORY_H_
