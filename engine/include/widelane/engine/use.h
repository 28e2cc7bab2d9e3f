// What an engine's parts are at, and have done: for whoever watches it.

#ifndef WIDELANE_ENGINE_USE_H_
#define WIDELANE_ENGINE_USE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace widelane {

// Counts grow from the engine's start on, and never fall.
struct DeviceUse {
  size_t lanes = 0;                  // batches, or pieces of one, that may be worked on at once
  size_t lanes_busy = 0;             // that are worked on now
  std::chrono::nanoseconds busy{0};  // in which there was at least one, up to now
  // Over the bus to a GPU and back, for batches: copied, or read and written by its kernels where it lies.
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  uint64_t weight_bytes = 0;    // that models take now
  uint64_t weight_uploads = 0;  // how often a model's weights, or its part of them, were brought there
};

struct EngineUse {
  std::vector<DeviceUse> devices;  // as Engine::devices(); a model cut over the GPUs is on each of them
  size_t slabs = 0;
  size_t slabs_in_use = 0;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_USE_H_
