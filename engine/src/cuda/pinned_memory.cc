#include "cuda/pinned_memory.h"

#include "absl/status/statusor.h"
#include "cuda/current_device.h"
#include "cuda/owners.h"

namespace widelane::cuda {

// Page-aligned by the runtime, which is more than the 64 bytes promised.
std::byte* PinnedMemory::Allocate(size_t bytes) {
  const ScopedDevice scope(device_);
  if (!scope.status().ok()) return nullptr;
  const absl::StatusOr<void*> data = AllocatePinned(bytes, device_);
  return data.ok() ? static_cast<std::byte*>(*data) : nullptr;
}

void PinnedMemory::Free(std::byte* data, size_t /*bytes*/) { FreePinned{device_}(data); }

}  // namespace widelane::cuda
