#include "cuda/pinned_memory.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/status/statusor.h"
#include "cuda/current_device.h"
#include "cuda/numa.h"
#include "cuda/owners.h"

namespace widelane::cuda {
namespace {

constexpr size_t kPage = 4096;

bool UsesHostAddresses(int device) {
  int yes = 0;
  return cudaDeviceGetAttribute(&yes, cudaDevAttrCanUseHostPointerForRegisteredMem, device) == cudaSuccess && yes != 0;
}

}  // namespace

bool NearMemoryWorks(const std::vector<PinnedMemory::Home>& homes) {
  return NumaNodes() > 1 &&
         std::all_of(homes.begin(), homes.end(), [](const auto& home) { return UsesHostAddresses(home.device); });
}

// Page-aligned either way, which is more than the 64 bytes promised.
std::byte* PinnedMemory::Allocate(size_t bytes) {
  const Home& home = homes_[next_++ % homes_.size()];
  const ScopedDevice scope(home.device);
  if (!scope.status().ok()) return nullptr;
  if (near_) return AllocateNear(home, bytes);
  const absl::StatusOr<void*> data = AllocatePinned(bytes, home.device);
  return data.ok() ? static_cast<std::byte*>(*data) : nullptr;
}

std::byte* PinnedMemory::AllocateNear(const Home& home, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  PreferNode(data, bytes, home.node);
  // Pages are placed when touched.
  for (size_t offset = 0; offset < bytes; offset += kPage) static_cast<volatile char*>(data)[offset] = 0;
  if (cudaHostRegister(data, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped) == cudaSuccess) {
    return static_cast<std::byte*>(data);
  }
  (void)cudaGetLastError();
  munmap(data, bytes);
  return nullptr;
}

void PinnedMemory::Free(std::byte* data, size_t bytes) {
  const int device = homes_.front().device;
  if (!near_) return FreePinned{device}(data);
  const ScopedDevice scope(device);
  (void)cudaHostUnregister(data);
  munmap(data, bytes);
}

void DieUnlessPinned(const void* data, const char* array) {
  cudaPointerAttributes attributes{};
  const cudaError_t code = cudaPointerGetAttributes(&attributes, data);
  if (code == cudaSuccess && attributes.type == cudaMemoryTypeHost) return;
  (void)std::fprintf(stderr, "a GPU is to use memory that is not pinned: %s at %p\n", array, data);
  std::abort();
}

}  // namespace widelane::cuda
