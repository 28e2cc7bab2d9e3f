#include "cuda/gpu.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/cuda_error.h"
#include "cuda/current_device.h"
#include "cuda/numa.h"

namespace widelane::cuda {

Gpu::Gpu(DeviceInfo info, const EngineOptions& options)
    : info_(std::move(info)),
      float_weights_(options.kernel == SumKernel::kCusparse),
      node_(NumaNodes() > 1 ? NumaNodeOf(info_.pci_address) : -1),
      budget_(MemoryBudget::Create(options.gpu_memory)),
      uploader_(info_.index) {}

absl::StatusOr<uint64_t> Gpu::FreeBytes() const {
  const ScopedDevice scope(index());
  if (!scope.status().ok()) return scope.status();
  size_t free = 0;
  size_t total = 0;
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaMemGetInfo(&free, &total), index());
  return free;
}

absl::StatusOr<uint64_t> Gpu::BytesLeft() const {
  const absl::StatusOr<uint64_t> free = FreeBytes();
  if (!free.ok()) return free.status();
  return budget_->Left(*free);
}

absl::StatusOr<std::unique_ptr<CudaResident>> Gpu::Load(const Model& model, const FeatureRange& features) {
  // One at a time: what is free says nothing of what another load is about to take.
  const std::lock_guard<std::mutex> lock(loading_);
  const absl::StatusOr<uint64_t> free = FreeBytes();
  if (!free.ok()) return free.status();
  absl::StatusOr<MemoryBudget::Share> share =
      budget_->Take(CudaResident::Bytes(model, features, float_weights_), *free);
  if (!share.ok()) {
    return absl::Status(share.status().code(), absl::StrCat(info_.id, ": ", share.status().message()));
  }
  const ScopedDevice scope(index());
  if (!scope.status().ok()) return scope.status();
  absl::StatusOr<std::unique_ptr<CudaResident>> resident =
      CudaResident::Create(model, features, float_weights_, *std::move(share), uploader_);
  if (!resident.ok()) {
    const absl::Status& status = resident.status();
    return absl::Status(status.code(), absl::StrCat("loading a model onto ", info_.id, ": ", status.message()));
  }
  uploads_.fetch_add(1, std::memory_order_relaxed);
  return resident;
}

absl::Status Gpu::BindThread() const {
  if (node_ >= 0) PreferCoresOf(node_);
  return cuda::BindThread(index());
}

}  // namespace widelane::cuda
