// What the devices on one GPU share: the GPU alone, and all GPUs together.

#ifndef WIDELANE_ENGINE_SRC_CUDA_GPU_H_
#define WIDELANE_ENGINE_SRC_CUDA_GPU_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backend.h"
#include "cuda/memory_budget.h"
#include "cuda/resident.h"
#include "cuda/uploader.h"
#include "widelane/engine/device.h"
#include "widelane/engine/model.h"
#include "widelane/engine/options.h"

namespace widelane::cuda {

// Any thread.
class Gpu {
 public:
  // `info.index` is the GPU's position among the visible ones.
  Gpu(DeviceInfo info, const EngineOptions& options);

  const DeviceInfo& info() const { return info_; }
  int index() const { return info_.index; }

  // Bytes that models may still take.
  absl::StatusOr<uint64_t> BytesLeft() const;
  // Of the models that are loaded, and how often Load has brought weights.
  DeviceWeights weights() const { return {budget_->used(), uploads_.load(std::memory_order_relaxed)}; }
  // Uploads the weights of `features`. Errors: RESOURCE_EXHAUSTED, before anything is allocated when the budget is too
  // small.
  absl::StatusOr<std::unique_ptr<CudaResident>> Load(const Model& model, const FeatureRange& features);
  // Binds the calling thread to the GPU and, on a machine with several nodes, to the cores near it.
  absl::Status BindThread() const;

 private:
  absl::StatusOr<uint64_t> FreeBytes() const;

  const DeviceInfo info_;
  const bool float_weights_;  // cuSPARSE needs them so
  const int node_;            // of memory, -1 if it does not matter
  const std::shared_ptr<MemoryBudget> budget_;
  std::atomic<uint64_t> uploads_{0};
  std::mutex loading_;
  Uploader uploader_;
};

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_GPU_H_
