// What a GPU's bus and memory give, for benchmarks: the floor that a batch's time is held against.
//
// All functions may be called from any thread. Errors: UNIMPLEMENTED in a build without CUDA, else what the driver
// says.

#ifndef WIDELANE_ENGINE_BUS_H_
#define WIDELANE_ENGINE_BUS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace widelane {

struct BusTimes {
  std::chrono::nanoseconds to_device{0};
  std::chrono::nanoseconds to_host{0};
};

// One copy of `bytes` from and to pinned memory, from the call to its completion on the host's clock, waiting as fast
// as the driver can; the median of several. `gpu` counts visible GPUs from 0.
absl::StatusOr<BusTimes> MeasureBus(int gpu, size_t bytes);

struct GpuMemory {
  uint64_t used = 0;  // by all processes and the driver itself
  uint64_t total = 0;
};

// The first call for a GPU makes its context, which then counts as used.
absl::StatusOr<GpuMemory> MeasureGpuMemory(int gpu);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_BUS_H_
