// One GPU as the engine sees it.

#ifndef WIDELANE_ENGINE_SRC_CUDA_CUDA_DEVICE_H_
#define WIDELANE_ENGINE_SRC_CUDA_CUDA_DEVICE_H_

#include <cstddef>
#include <memory>

#include "backend.h"
#include "cuda/owners.h"
#include "widelane/engine/options.h"

namespace widelane::cuda {

// A model's weights, bias and scales in the memory of one GPU. Never changes once made.
class CudaResident : public ResidentModel {
 public:
  // On the current device, which is `device`. Returns when everything is there.
  static absl::StatusOr<std::unique_ptr<CudaResident>> Create(const Model& model, int device);

  const std::byte* weights() const { return weights_.data(); }
  const double* bias() const { return bias_.data(); }
  const double* scale() const { return scale_.data(); }

 private:
  CudaResident() = default;

  DeviceBuffer<std::byte> weights_;
  DeviceBuffer<double> bias_;
  DeviceBuffer<double> scale_;
};

class CudaDevice : public Device {
 public:
  // `info.index` is the GPU's position among the visible ones.
  CudaDevice(DeviceInfo info, const EngineOptions& options) : info_(std::move(info)), options_(options) {}

  const DeviceInfo& info() const override { return info_; }
  size_t lanes() const override { return options_.lanes; }
  // Binds the calling thread to this GPU.
  absl::StatusOr<std::unique_ptr<Lane>> MakeLane() override;
  absl::StatusOr<std::unique_ptr<ResidentModel>> Load(const Model& model) override;

 private:
  const DeviceInfo info_;
  const EngineOptions options_;
};

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_CUDA_DEVICE_H_
