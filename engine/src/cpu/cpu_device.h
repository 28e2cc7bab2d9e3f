// The CPU as a device.

#ifndef WIDELANE_ENGINE_SRC_CPU_CPU_DEVICE_H_
#define WIDELANE_ENGINE_SRC_CPU_CPU_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backend.h"
#include "thread_pool.h"
#include "widelane/engine/options.h"

namespace widelane {

// Uses options.instruction_set and, for batches of much work, which are cut by rows, the helpers of `pool`. Start does
// all the work, on the calling thread and the pool's. Errors: FAILED_PRECONDITION when the machine lacks the
// instruction set.
absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(const EngineOptions& options, std::shared_ptr<ThreadPool> pool);

// A lane that never uses the pool, for small batches on the calling thread. Of a device that is not from MakeCpuDevice
// (one that stands for it in tests), an ordinary lane. Errors: as MakeLane.
absl::StatusOr<std::unique_ptr<Lane>> MakeInlineLane(Device& cpu);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_CPU_CPU_DEVICE_H_
