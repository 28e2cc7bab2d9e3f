#include "cuda/current_device.h"

#include <cuda_runtime_api.h>

#include "cuda/cuda_error.h"

namespace widelane::cuda {
namespace {

constexpr int kUnbound = -1;
thread_local int bound_device = kUnbound;

absl::Status SetDevice(int device) {
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaSetDevice(device), device);
  return absl::OkStatus();
}

}  // namespace

absl::Status BindThread(int device) {
  absl::Status status = SetDevice(device);
  if (status.ok()) bound_device = device;
  return status;
}

absl::Status BindIfUnbound(int device) { return bound_device == kUnbound ? BindThread(device) : absl::OkStatus(); }

ScopedDevice::ScopedDevice(int device) : device_(device), status_(SetDevice(device)) {}

ScopedDevice::~ScopedDevice() {
  if (bound_device != kUnbound && bound_device != device_) (void)cudaSetDevice(bound_device);
}

}  // namespace widelane::cuda
