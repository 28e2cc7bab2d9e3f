// The CPU as a device.

#ifndef WIDELANE_ENGINE_SRC_CPU_CPU_DEVICE_H_
#define WIDELANE_ENGINE_SRC_CPU_CPU_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backend.h"
#include "widelane/engine/options.h"

namespace widelane {

// Uses options.cpu_threads cores (0: all usable ones) and options.instruction_set. It has one lane a core; a batch of
// much work is cut by rows over a pool all lanes share. Errors: FAILED_PRECONDITION when the machine lacks the
// instruction set.
absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(const EngineOptions& options);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_CPU_CPU_DEVICE_H_
