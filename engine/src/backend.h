// What a backend is: devices, the models on them and the lanes that score. The CPU, each GPU and the tests' fake device
// implement these; the engine owns threads and queues and knows nothing else of them.

#ifndef WIDELANE_ENGINE_SRC_BACKEND_H_
#define WIDELANE_ENGINE_SRC_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "widelane/engine/device.h"
#include "widelane/engine/model.h"
#include "widelane/engine/slab.h"
#include "widelane/engine/stages.h"

namespace widelane {

// A model's weights on one device.
class ResidentModel {
 public:
  virtual ~ResidentModel() = default;
};

// One worker's place on a device. Used by one thread at a time.
class Lane {
 public:
  virtual ~Lane() = default;
  // Scores rows [first_row, first_row + rows) of `batch` into its results and returns when they are there. Adds launch,
  // transfer_in, compute and transfer_out to `stages`. After an error the results of these rows are undefined.
  virtual absl::Status Score(const Model& model, const ResidentModel& resident, const BatchView& batch,
                             uint32_t first_row, uint32_t rows, StageTimes& stages) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  // Lanes that are to score at once.
  virtual size_t lanes() const = 0;
  // A GPU's lane is made on the one thread that will use it, and binds that thread to the GPU; lanes of the CPU may be
  // used by any thread, one at a time. A few more than lanes() may exist for a while, when a model is probed.
  virtual absl::StatusOr<std::unique_ptr<Lane>> MakeLane() = 0;
  // Any thread. `model` outlives the resident.
  virtual absl::StatusOr<std::unique_ptr<ResidentModel>> Load(const Model& model) = 0;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_BACKEND_H_
