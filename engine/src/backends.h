// Makes the devices that the options ask for. The one place that knows which backends there are.

#ifndef WIDELANE_ENGINE_SRC_BACKENDS_H_
#define WIDELANE_ENGINE_SRC_BACKENDS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backend.h"
#include "thread_pool.h"
#include "widelane/engine/options.h"

namespace widelane {

struct Backends {
  std::vector<std::unique_ptr<Device>> devices;  // the CPU, then GPUs
  std::unique_ptr<Device> sharded;               // all GPUs as one, for models too large for each; null with one
  std::shared_ptr<ThreadPool> pool;              // the CPU's; null: nothing is cut over threads
  std::unique_ptr<HostMemory> memory;            // for slabs, pinned if there are GPUs
  std::string fallback_reason;                   // why `auto` found no GPU
  std::string left_out;                          // GPUs that cannot be used beside others that can, and why
};

// Errors: FAILED_PRECONDITION when GPUs are demanded and there are none, with the reason in words.
absl::StatusOr<Backends> MakeBackends(const EngineOptions& options);

// Ordinary memory.
std::unique_ptr<HostMemory> MakePlainHostMemory();

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_BACKENDS_H_
