// One GPU as the engine sees it.

#ifndef WIDELANE_ENGINE_SRC_CUDA_CUDA_DEVICE_H_
#define WIDELANE_ENGINE_SRC_CUDA_CUDA_DEVICE_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "backend.h"
#include "cuda/gpu.h"
#include "widelane/engine/options.h"

namespace widelane::cuda {

class CudaDevice : public Device {
 public:
  CudaDevice(std::shared_ptr<Gpu> gpu, const EngineOptions& options) : gpu_(std::move(gpu)), options_(options) {}

  const DeviceInfo& info() const override { return gpu_->info(); }
  size_t lanes() const override { return options_.lanes; }
  // Errors, besides a lack of memory: FAILED_PRECONDITION when options.kernel is cuSPARSE and there is none.
  absl::StatusOr<std::unique_ptr<Lane>> MakeLane() override;
  absl::Status BindThread() override { return gpu_->BindThread(); }
  absl::StatusOr<std::unique_ptr<ResidentModel>> Load(const Model& model) override;
  DeviceWeights weights() const override { return gpu_->weights(); }

 private:
  const std::shared_ptr<Gpu> gpu_;
  const EngineOptions options_;
};

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_CUDA_DEVICE_H_
