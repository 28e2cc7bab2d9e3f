// Which GPUs the runtime shows, and which of them this build can use.

#ifndef WIDELANE_ENGINE_SRC_CUDA_DISCOVERY_H_
#define WIDELANE_ENGINE_SRC_CUDA_DISCOVERY_H_

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "widelane/engine/device.h"

namespace widelane::cuda {

// How long a driver may take to answer. A server that falls back to its CPU is to be ready within 10 s.
inline constexpr std::chrono::seconds kDriverPatience{7};

// The visible GPUs, in the runtime's order; CUDA_VISIBLE_DEVICES is its business. Errors, all in the driver's words:
// UNAVAILABLE for no driver, no GPU, or a driver that does not answer in time: the thread that asked it is then left
// behind.
absl::StatusOr<std::vector<DeviceInfo>> VisibleGpus(std::chrono::milliseconds patience = kDriverPatience);

// Loads the kernels onto the GPU. Errors: FAILED_PRECONDITION for one this build has no code for, or what the runtime
// says.
absl::Status PrepareGpu(const DeviceInfo& gpu);

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_DISCOVERY_H_
