#include "cuda/owners.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cuda/cuda_error.h"
#include "cuda/current_device.h"

namespace widelane::cuda {
namespace {

// The size that was asked for says more than the driver's words.
absl::Status WithSize(const absl::Status& status, size_t bytes, const char* kind) {
  return absl::Status(status.code(), absl::StrCat(bytes, " bytes of ", kind, " memory: ", status.message()));
}

absl::Status MallocDevice(void** data, size_t bytes, int device) {
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaMalloc(data, bytes), device);
  return absl::OkStatus();
}

absl::StatusOr<Event> MakeEvent(unsigned flags, int device) {
  cudaEvent_t event = nullptr;
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventCreateWithFlags(&event, flags), device);
  return Event(event);
}

absl::Status MallocPinned(void** data, size_t bytes, int device) {
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaHostAlloc(data, bytes, cudaHostAllocPortable | cudaHostAllocMapped), device);
  return absl::OkStatus();
}

}  // namespace

void FreeDevice::operator()(void* data) const {
  const ScopedDevice scope(device);
  (void)cudaFree(data);
}

void FreePinned::operator()(void* data) const {
  const ScopedDevice scope(device);
  (void)cudaFreeHost(data);
}

absl::StatusOr<Stream> CreateStream(int device) {
  cudaStream_t stream = nullptr;
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), device);
  return Stream(stream);
}

absl::StatusOr<Event> CreateTimedEvent(int device) { return MakeEvent(cudaEventBlockingSync, device); }

absl::StatusOr<Event> CreateEvent(int device) {
  return MakeEvent(cudaEventBlockingSync | cudaEventDisableTiming, device);
}

absl::StatusOr<void*> AllocateDevice(size_t bytes, int device) {
  void* data = nullptr;
  const absl::Status status = MallocDevice(&data, bytes, device);
  if (!status.ok()) return WithSize(status, bytes, "device");
  return data;
}

absl::StatusOr<void*> AllocatePinned(size_t bytes, int device) {
  void* data = nullptr;
  const absl::Status status = MallocPinned(&data, bytes, device);
  if (!status.ok()) return WithSize(status, bytes, "pinned host");
  return data;
}

absl::StatusOr<size_t> BufferBytes(size_t size, size_t element) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(size, element, &bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("an array of ", size, " elements of ", element, " bytes"));
  }
  return std::max<size_t>(bytes, 1);
}

}  // namespace widelane::cuda
