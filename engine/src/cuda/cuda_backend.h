// The CUDA backend's only door: finds the GPUs. No CUDA type is visible here.

#ifndef WIDELANE_ENGINE_SRC_CUDA_CUDA_BACKEND_H_
#define WIDELANE_ENGINE_SRC_CUDA_CUDA_BACKEND_H_

#include <memory>
#include <string>
#include <vector>

#include "backend.h"
#include "widelane/engine/device.h"
#include "widelane/engine/options.h"
#include "widelane/engine/slab.h"

namespace widelane {

struct CudaDiscovery {
  // The usable GPUs among the selected ones, in the order of the selection.
  std::vector<std::unique_ptr<Device>> devices;
  // All of them as one, for models that none of them holds alone; null with fewer than two. It shares their budgets of
  // memory.
  std::unique_ptr<Device> sharded;
  // Why there are none, or which were left out: with code and text of the driver. Empty when all is well.
  std::string reason;
  // Pinned memory that every GPU copies from at full speed, and that kernels read and write; null without devices.
  std::unique_ptr<HostMemory> memory;
};

// Asks the runtime which GPUs are visible and prepares the selected ones. A driver that does not answer the question
// within seconds is given up, and its thread left behind; making a context on each GPU then takes what it takes. Never
// fails: whatever is wrong is told in `reason`. A selection of GPUs by position yields all of them or none.
CudaDiscovery DiscoverCudaDevices(const DeviceSelection& selection, const EngineOptions& options);

// `gpus`, two at least, as one device with budgets of its own. For tests: a GPU may be there twice.
std::unique_ptr<Device> MakeShardedCudaDevice(const std::vector<DeviceInfo>& gpus, const EngineOptions& options);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_CUDA_CUDA_BACKEND_H_
