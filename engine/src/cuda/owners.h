// Owners of CUDA resources: move-only, freed in the destructor whatever the current device. Empty ones own nothing.
//
// The Create functions make the resource on the thread's current device (see current_device.h). One thread at a time
// uses an owner; a stream or event may be destroyed on another thread than made it.

#ifndef WIDELANE_ENGINE_SRC_CUDA_OWNERS_H_
#define WIDELANE_ENGINE_SRC_CUDA_OWNERS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace widelane::cuda {

struct DestroyStream {
  void operator()(cudaStream_t stream) const { (void)cudaStreamDestroy(stream); }
};
struct DestroyEvent {
  void operator()(cudaEvent_t event) const { (void)cudaEventDestroy(event); }
};
// Freed with its own device current: a thread that never chose one would make a context on the first GPU by freeing.
struct FreeDevice {
  int device = 0;
  void operator()(void* data) const;
};
struct FreePinned {
  int device = 0;
  void operator()(void* data) const;
};

using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;

// A stream that never waits for the default one.
absl::StatusOr<Stream> CreateStream(int device);
// Events; a thread waiting for one sleeps. Taking the time costs the GPU a microsecond or so.
absl::StatusOr<Event> CreateTimedEvent(int device);
absl::StatusOr<Event> CreateEvent(int device);

absl::StatusOr<void*> AllocateDevice(size_t bytes, int device);
absl::StatusOr<void*> AllocatePinned(size_t bytes, int device);

// Moves what `made` holds into `to`.
template <typename T>
absl::Status Keep(absl::StatusOr<T> made, T& to) {
  if (!made.ok()) return made.status();
  to = *std::move(made);
  return absl::OkStatus();
}

// An array of `size` elements that Free gives back. Elements are not initialised.
template <typename T, typename Free>
class Buffer {
 public:
  static_assert(std::is_trivially_copyable_v<T>);
  Buffer() = default;

  T* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  template <typename U>
  friend absl::StatusOr<Buffer<U, FreeDevice>> CreateDeviceBuffer(size_t size, int device);
  template <typename U>
  friend absl::StatusOr<Buffer<U, FreePinned>> CreatePinnedBuffer(size_t size, int device);
  Buffer(T* data, size_t size, int device) : data_(data, Free{device}), size_(size) {}

  std::unique_ptr<T, Free> data_;
  size_t size_ = 0;
};

template <typename T>
using DeviceBuffer = Buffer<T, FreeDevice>;
template <typename T>
using PinnedBuffer = Buffer<T, FreePinned>;

// Bytes of `size` elements, at least 1. RESOURCE_EXHAUSTED when the product overflows.
absl::StatusOr<size_t> BufferBytes(size_t size, size_t element);

// Errors: RESOURCE_EXHAUSTED without memory.
template <typename T>
absl::StatusOr<DeviceBuffer<T>> CreateDeviceBuffer(size_t size, int device) {
  absl::StatusOr<size_t> bytes = BufferBytes(size, sizeof(T));
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<void*> data = AllocateDevice(*bytes, device);
  if (!data.ok()) return data.status();
  return DeviceBuffer<T>(static_cast<T*>(*data), size, device);
}

// Memory that any GPU copies from, and that kernels use at the same address. Errors: RESOURCE_EXHAUSTED without memory.
template <typename T>
absl::StatusOr<PinnedBuffer<T>> CreatePinnedBuffer(size_t size, int device) {
  absl::StatusOr<size_t> bytes = BufferBytes(size, sizeof(T));
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<void*> data = AllocatePinned(*bytes, device);
  if (!data.ok()) return data.status();
  return PinnedBuffer<T>(static_cast<T*>(*data), size, device);
}

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_OWNERS_H_
