#include "cuda/cuda_device.h"

#include "cuda/cuda_lane.h"
#include "cuda/current_device.h"
#include "cuda/cusparse_lane.h"
#include "cuda/resident.h"

namespace widelane::cuda {

absl::StatusOr<std::unique_ptr<Lane>> CudaDevice::MakeLane() {
  const ScopedDevice scope(gpu_->index());
  if (!scope.status().ok()) return scope.status();
  if (options_.kernel == SumKernel::kCusparse) return MakeCusparseLane(options_, gpu_->index());
  absl::StatusOr<std::unique_ptr<CudaLane>> lane = CudaLane::Create(options_, gpu_->index());
  if (!lane.ok()) return lane.status();
  return *std::move(lane);
}

absl::StatusOr<std::unique_ptr<ResidentModel>> CudaDevice::Load(const Model& model) {
  absl::StatusOr<std::unique_ptr<CudaResident>> resident = gpu_->Load(model, AllFeatures(model));
  if (!resident.ok()) return resident.status();
  return *std::move(resident);
}

}  // namespace widelane::cuda
