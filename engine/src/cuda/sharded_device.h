// Several GPUs that share one model, for models that none of them holds alone: each has the weights of a range of
// features. Sums are exact, so the parts add up to the bits that one GPU would give.

#ifndef WIDELANE_ENGINE_SRC_CUDA_SHARDED_DEVICE_H_
#define WIDELANE_ENGINE_SRC_CUDA_SHARDED_DEVICE_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "backend.h"
#include "cuda/gpu.h"
#include "cuda/resident.h"
#include "widelane/engine/options.h"

namespace widelane::cuda {

// A model's parts, one for each GPU in their order. Some may be of no features.
struct ShardedResident : public ResidentModel {
  std::vector<std::unique_ptr<CudaResident>> parts;
};

class ShardedDevice : public Device {
 public:
  // Two to kMaxPartials GPUs; one may be there twice. The first one finishes every batch.
  ShardedDevice(std::vector<std::shared_ptr<Gpu>> gpus, const EngineOptions& options)
      : gpus_(std::move(gpus)), options_(options) {}

  // The first GPU's.
  const DeviceInfo& info() const override { return gpus_.front()->info(); }
  size_t lanes() const override { return options_.lanes; }
  absl::StatusOr<std::unique_ptr<Lane>> MakeLane() override;
  absl::Status BindThread() override { return gpus_.front()->BindThread(); }
  // Cuts the features in proportion to what each GPU's budget has left.
  absl::StatusOr<std::unique_ptr<ResidentModel>> Load(const Model& model) override;

 private:
  const std::vector<std::shared_ptr<Gpu>> gpus_;
  const EngineOptions options_;
};

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_SHARDED_DEVICE_H_
