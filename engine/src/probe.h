// A trial of every kernel that batches of a model can need, on one GPU, against the bits of the CPU.

#ifndef WIDELANE_ENGINE_SRC_PROBE_H_
#define WIDELANE_ENGINE_SRC_PROBE_H_

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "widelane/engine/engine.h"

namespace widelane {

// Scores a sealed batch on the GPU, reading it where it lies or copying it first, or on the CPU; waits.
struct ProbeRuns {
  absl::FunctionRef<absl::Status(SlabHandle& slab, bool mapped)> on_gpu;
  absl::FunctionRef<absl::Status(SlabHandle& slab)> on_cpu;
};

// `limits` are those of `slab`, any free one; `device` is for messages. Errors: those of the runs, INTERNAL when bits
// differ, naming the row and output.
absl::Status ProbeDevice(const std::shared_ptr<const LoadedModel>& model, const std::string& device,
                         const SlabOptions& limits, SlabHandle& slab, const ProbeRuns& runs);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_PROBE_H_
