#include "cuda/cuda_backend.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/cuda_device.h"
#include "cuda/discovery.h"
#include "cuda/pinned_memory.h"

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

}  // namespace

CudaDiscovery DiscoverCudaDevices(const DeviceSelection& selection, const EngineOptions& options) {
  CudaDiscovery found;
  if (selection.kind == DeviceSelection::Kind::kCpu) return found;
  const absl::StatusOr<std::vector<DeviceInfo>> visible = cuda::VisibleGpus();
  if (!visible.ok()) {
    found.reason = std::string(visible.status().message());
    return found;
  }
  for (const DeviceInfo& gpu : Select(selection, *visible, found.reason)) {
    const absl::Status status = cuda::PrepareGpu(gpu);
    if (status.ok()) {
      found.devices.push_back(std::make_unique<cuda::CudaDevice>(gpu, options));
      continue;
    }
    absl::StrAppend(&found.reason, found.reason.empty() ? "" : "; ", gpu.id, " left out: ", status.message());
    if (selection.kind == DeviceSelection::Kind::kList) {
      found.devices.clear();
      break;
    }
  }
  if (!found.devices.empty()) {
    found.memory = std::make_unique<cuda::PinnedMemory>(found.devices.front()->info().index);
  }
  return found;
}

}  // namespace widelane
