// Takes weights from ordinary memory to a GPU at the bus's speed: through two pinned buffers, one of which the host
// fills while the GPU copies from the other.

#ifndef WIDELANE_ENGINE_SRC_CUDA_UPLOADER_H_
#define WIDELANE_ENGINE_SRC_CUDA_UPLOADER_H_

#include <array>
#include <cstddef>
#include <mutex>

#include "absl/status/status.h"
#include "cuda/owners.h"

namespace widelane::cuda {

// Any thread that has `device` as its current one; one upload at a time, others wait.
class Uploader {
 public:
  explicit Uploader(int device) : device_(device) {}

  int device() const { return device_; }
  // Returns when the bytes are there. The pinned buffers are made by the first call and kept.
  absl::Status Upload(const void* from, size_t bytes, void* to);

 private:
  static constexpr size_t kHalfBytes = size_t{8} << 20;
  struct Half {
    PinnedBuffer<std::byte> bytes;
    Event copied;
  };

  absl::Status Prepare();
  absl::Status CopyPart(Half& half, const std::byte* from, size_t bytes, std::byte* to);

  const int device_;
  std::mutex mutex_;
  std::array<Half, 2> halves_;
  Stream stream_;  // last, so that it is destroyed before what it uses
};

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_UPLOADER_H_
