// Whether a device computes a model's scores as the CPU does: asked once, when the model is loaded.

#ifndef WIDELANE_ENGINE_SRC_PROBE_H_
#define WIDELANE_ENGINE_SRC_PROBE_H_

#include <memory>

#include "absl/status/status.h"
#include "backend.h"
#include "widelane/engine/engine.h"

namespace widelane {

// Scores rows of many lengths, with and without values, on `device` (index `index` of `model`) and on the CPU, and
// compares bits; the first call on a device also makes it load its kernels. Errors: the device's own, or INTERNAL
// naming the first row and output that differ.
absl::Status ProbeDevice(const std::shared_ptr<const LoadedModel>& model, Device& device, size_t index, Device& cpu,
                         const SlabOptions& limits, HostMemory& memory);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_PROBE_H_
