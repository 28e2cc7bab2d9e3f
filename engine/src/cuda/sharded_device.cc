#include "cuda/sharded_device.h"

#include "absl/strings/str_cat.h"
#include "cuda/chunks.h"
#include "cuda/sharded_lane.h"

namespace widelane::cuda {

absl::StatusOr<std::unique_ptr<Lane>> ShardedDevice::MakeLane() {
  std::vector<int> devices;
  devices.reserve(gpus_.size());
  for (const std::shared_ptr<Gpu>& gpu : gpus_) devices.push_back(gpu->index());
  absl::StatusOr<std::unique_ptr<ShardedLane>> lane = ShardedLane::Create(options_, devices);
  if (!lane.ok()) return lane.status();
  return *std::move(lane);
}

absl::StatusOr<std::unique_ptr<ResidentModel>> ShardedDevice::Load(const Model& model) {
  std::vector<uint64_t> left;
  uint64_t total = 0;
  for (const std::shared_ptr<Gpu>& gpu : gpus_) {
    const absl::StatusOr<uint64_t> bytes = gpu->BytesLeft();
    if (!bytes.ok()) return bytes.status();
    left.push_back(*bytes);
    total += *bytes;
  }
  if (const uint64_t need = CudaResident::Bytes(model, AllFeatures(model), false); need > total) {
    return absl::ResourceExhaustedError(absl::StrCat("the model needs ", need, " bytes of memory; models may take ",
                                                     total, " more on all ", gpus_.size(), " GPUs together"));
  }
  const std::vector<uint64_t> bounds = CutFeatures(model.features(), left);
  auto resident = std::make_unique<ShardedResident>();
  for (size_t i = 0; i < gpus_.size(); ++i) {
    absl::StatusOr<std::unique_ptr<CudaResident>> part = gpus_[i]->Load(model, {bounds[i], bounds[i + 1]});
    if (!part.ok()) return part.status();
    resident->parts.push_back(*std::move(part));
  }
  return resident;
}

}  // namespace widelane::cuda
