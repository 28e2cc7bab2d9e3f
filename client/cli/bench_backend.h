// One engine under measurement: its devices, the model on them, the memory that took.

#ifndef WIDELANE_CLIENT_CLI_BENCH_BACKEND_H_
#define WIDELANE_CLIENT_CLI_BENCH_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "widelane/engine/engine.h"

namespace widelane::cli {

enum class BackendKind {
  kCpu,
  kGpu,       // one
  kGpus,      // all of them
  kAuto,      // the engine's own choice
  kCusparse,  // one GPU, cuSPARSE in place of our kernels
};
// Errors: INVALID_ARGUMENT listing the names.
absl::StatusOr<BackendKind> ParseBackend(const std::string& name);
const char* BackendName(BackendKind kind);
std::string BackendNames();

struct BackendSetup {
  std::vector<int> gpus;  // those that kGpus uses, the first of which kGpu and kCusparse use; empty: all
  std::optional<size_t> threads;
  std::optional<size_t> lane_bytes;
  SlabOptions slab;
  size_t slabs = 0;
};
EngineOptions OptionsOf(BackendKind kind, const BackendSetup& setup);

// Bytes. Those of the host are this process's; those of devices are all that is used on the engine's GPUs, by the
// driver and by others, too: asking before there is an engine would make the GPU's context, and so hide what it takes.
struct BenchMemory {
  uint64_t host_before = 0;  // the engine was made
  uint64_t host_engine = 0;  // after it was made
  uint64_t host_loaded = 0;  // after the model was loaded
  uint64_t host_peak = 0;    // between the first and the last of these
  uint64_t device_engine = 0;
  uint64_t device_loaded = 0;
};

class BenchBackend {
 public:
  // Errors: FAILED_PRECONDITION when the machine lacks what the backend needs, in words: it is to be left out. Others
  // are failures.
  static absl::StatusOr<std::unique_ptr<BenchBackend>> Create(BackendKind kind, const BackendSetup& setup,
                                                              const std::shared_ptr<const Model>& model);

  BackendKind kind() const { return kind_; }
  Engine& engine() const { return *engine_; }
  const std::shared_ptr<const LoadedModel>& model() const { return model_; }
  const BenchMemory& memory() const { return memory_; }
  // Position among the visible GPUs of the first in use.
  std::optional<int> first_gpu() const;

 private:
  BenchBackend(BackendKind kind, std::unique_ptr<Engine> engine) : kind_(kind), engine_(std::move(engine)) {}

  const BackendKind kind_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<const LoadedModel> model_;
  BenchMemory memory_;
};

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_BACKEND_H_
