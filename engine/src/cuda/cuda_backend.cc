#include "cuda/cuda_backend.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/cuda_device.h"
#include "cuda/discovery.h"
#include "cuda/gpu.h"
#include "cuda/numa.h"
#include "cuda/pinned_memory.h"
#include "cuda/sharded_device.h"

namespace widelane {
namespace {

// The GPUs of `visible` that `selection` asks for, each once, even where one is visible under two positions. `reason`
// is set for a position that is not there.
std::vector<DeviceInfo> Select(const DeviceSelection& selection, const std::vector<DeviceInfo>& visible,
                               std::string& reason) {
  if (selection.kind != DeviceSelection::Kind::kList) {
    std::vector<DeviceInfo> unique;
    for (const DeviceInfo& gpu : visible) {
      const bool twice =
          std::any_of(unique.begin(), unique.end(), [&](const auto& other) { return other.id == gpu.id; });
      if (!twice) unique.push_back(gpu);
    }
    return unique;
  }
  std::vector<DeviceInfo> selected;
  for (const int index : selection.gpus) {
    if (index < 0 || static_cast<size_t>(index) >= visible.size()) {
      reason = absl::StrCat("GPU ", index, " was asked for; visible are ", visible.size(), ", counted from 0");
      return {};
    }
    const DeviceInfo& gpu = visible[static_cast<size_t>(index)];
    for (const DeviceInfo& other : selected) {
      if (other.id != gpu.id) continue;
      reason = absl::StrCat("GPU ", index, " and GPU ", other.index, " are the same, ", gpu.id);
      return {};
    }
    selected.push_back(gpu);
  }
  return selected;
}

std::unique_ptr<HostMemory> MakePinnedMemory(const std::vector<std::shared_ptr<cuda::Gpu>>& gpus) {
  std::vector<cuda::PinnedMemory::Home> homes;
  homes.reserve(gpus.size());
  for (const auto& gpu : gpus) homes.push_back({gpu->index(), cuda::NumaNodeOf(gpu->info().pci_address)});
  const bool near = cuda::NearMemoryWorks(homes);
  return std::make_unique<cuda::PinnedMemory>(std::move(homes), near);
}

// Together they are of use only for the contract's sums, and partial sums are added up in one call.
std::unique_ptr<Device> ShardOver(std::vector<std::shared_ptr<cuda::Gpu>> gpus, const EngineOptions& options) {
  if (gpus.size() < 2 || options.kernel != SumKernel::kExact) return nullptr;
  gpus.resize(std::min<size_t>(gpus.size(), cuda::kMaxPartials));
  return std::make_unique<cuda::ShardedDevice>(std::move(gpus), options);
}

}  // namespace

CudaDiscovery DiscoverCudaDevices(const DeviceSelection& selection, const EngineOptions& options) {
  CudaDiscovery found;
  if (selection.kind == DeviceSelection::Kind::kCpu) return found;
  const absl::StatusOr<std::vector<DeviceInfo>> visible = cuda::VisibleGpus();
  if (!visible.ok()) {
    found.reason = std::string(visible.status().message());
    return found;
  }
  std::vector<std::shared_ptr<cuda::Gpu>> gpus;
  for (const DeviceInfo& gpu : Select(selection, *visible, found.reason)) {
    const absl::Status status = cuda::PrepareGpu(gpu);
    if (status.ok()) {
      gpus.push_back(std::make_shared<cuda::Gpu>(gpu, options));
      continue;
    }
    absl::StrAppend(&found.reason, found.reason.empty() ? "" : "; ", gpu.id, " left out: ", status.message());
    if (selection.kind == DeviceSelection::Kind::kList) {
      gpus.clear();
      break;
    }
  }
  if (gpus.empty()) return found;
  for (const auto& gpu : gpus) found.devices.push_back(std::make_unique<cuda::CudaDevice>(gpu, options));
  found.memory = MakePinnedMemory(gpus);
  found.sharded = ShardOver(std::move(gpus), options);
  return found;
}

std::unique_ptr<Device> MakeShardedCudaDevice(const std::vector<DeviceInfo>& gpus, const EngineOptions& options) {
  std::vector<std::shared_ptr<cuda::Gpu>> shared;
  shared.reserve(gpus.size());
  for (const DeviceInfo& gpu : gpus) shared.push_back(std::make_shared<cuda::Gpu>(gpu, options));
  return ShardOver(std::move(shared), options);
}

}  // namespace widelane
