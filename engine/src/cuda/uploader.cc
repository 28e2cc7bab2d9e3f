#include "cuda/uploader.h"

#include <algorithm>
#include <cstring>

#include "cuda/cuda_error.h"

namespace widelane::cuda {

absl::Status Uploader::Prepare() {
  if (stream_ != nullptr) return absl::OkStatus();
  for (Half& half : halves_) {
    absl::Status status = Keep(CreatePinnedBuffer<std::byte>(kHalfBytes, device_), half.bytes);
    status.Update(Keep(CreateEvent(device_), half.copied));
    if (!status.ok()) return status;
  }
  return Keep(CreateStream(device_), stream_);
}

absl::Status Uploader::Upload(const void* from, size_t bytes, void* to) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (absl::Status status = Prepare(); !status.ok()) return status;
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  absl::Status status;
  for (size_t done = 0, part = 0; done < bytes && status.ok(); done += kHalfBytes, ++part) {
    status = CopyPart(halves_[part % halves_.size()], source + done, std::min(kHalfBytes, bytes - done), target + done);
  }
  // Also after a failure: the target may be freed on return.
  const cudaError_t code = cudaStreamSynchronize(stream_.get());
  if (!status.ok()) return status;
  WIDELANE_CUDA_RETURN_IF_ERROR(code, device_);
  return absl::OkStatus();
}

// An event that was never recorded counts as passed.
absl::Status Uploader::CopyPart(Half& half, const std::byte* from, size_t bytes, std::byte* to) {
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventSynchronize(half.copied.get()), device_);
  std::memcpy(half.bytes.data(), from, bytes);
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(to, half.bytes.data(), bytes, cudaMemcpyHostToDevice, stream_.get()),
                                device_);
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventRecord(half.copied.get(), stream_.get()), device_);
  return absl::OkStatus();
}

}  // namespace widelane::cuda
