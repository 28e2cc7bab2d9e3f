#include "cuda/cuda_device.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/cuda_error.h"
#include "cuda/cuda_lane.h"
#include "cuda/current_device.h"

namespace widelane::cuda {
namespace {

template <typename T>
absl::Status Upload(const T* data, size_t size, int device, cudaStream_t stream, DeviceBuffer<T>& buffer) {
  absl::StatusOr<DeviceBuffer<T>> made = CreateDeviceBuffer<T>(size, device);
  if (!made.ok()) return made.status();
  buffer = *std::move(made);
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(buffer.data(), data, size * sizeof(T), cudaMemcpyHostToDevice, stream),
                                device);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaResident>> CudaResident::Create(const Model& model, int device) {
  absl::StatusOr<Stream> stream = CreateStream(device);
  if (!stream.ok()) return stream.status();
  std::unique_ptr<CudaResident> resident(new CudaResident);
  absl::Status status = Upload(model.weights(), model.weight_bytes(), device, stream->get(), resident->weights_);
  status.Update(Upload(model.bias().data(), model.bias().size(), device, stream->get(), resident->bias_));
  status.Update(Upload(model.scale().data(), model.scale().size(), device, stream->get(), resident->scale_));
  // Also after a failure: what has been started reads the model's memory.
  const cudaError_t code = cudaStreamSynchronize(stream->get());
  if (!status.ok()) return status;
  WIDELANE_CUDA_RETURN_IF_ERROR(code, device);
  return resident;
}

absl::StatusOr<std::unique_ptr<Lane>> CudaDevice::MakeLane() {
  if (absl::Status status = BindThread(info_.index); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<CudaLane>> lane = CudaLane::Create(options_.slab, info_.index);
  if (!lane.ok()) return lane.status();
  return *std::move(lane);
}

absl::StatusOr<std::unique_ptr<ResidentModel>> CudaDevice::Load(const Model& model) {
  const ScopedDevice scope(info_.index);
  if (!scope.status().ok()) return scope.status();
  absl::StatusOr<std::unique_ptr<CudaResident>> resident = CudaResident::Create(model, info_.index);
  if (!resident.ok()) {
    const absl::Status& status = resident.status();
    return absl::Status(status.code(), absl::StrCat("loading a model onto ", info_.id, ": ", status.message()));
  }
  return *std::move(resident);
}

}  // namespace widelane::cuda
