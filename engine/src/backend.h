// What a backend is: devices, the models on them and the lanes that score. The CPU, each GPU, GPUs that share one model
// and the tests' fake device implement these; the engine owns threads and queues and knows nothing else of them.

#ifndef WIDELANE_ENGINE_SRC_BACKEND_H_
#define WIDELANE_ENGINE_SRC_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "widelane/engine/device.h"
#include "widelane/engine/model.h"
#include "widelane/engine/piece_record.h"
#include "widelane/engine/slab.h"
#include "widelane/engine/stages.h"

namespace widelane {

// A model's weights on one device.
class ResidentModel {
 public:
  virtual ~ResidentModel() = default;
};

// Rows [first_row, first_row + rows) of a batch. first_row is a multiple of kGroupRows for all devices but the CPU.
// Everything it points to stays unchanged until Lane::Finish has returned.
struct LaneWork {
  const Model* model = nullptr;
  const ResidentModel* resident = nullptr;
  const BatchView* batch = nullptr;
  uint32_t first_row = 0;
  uint32_t rows = 0;
  // A GPU reads the batch where it lies instead of copying it first.
  bool mapped = false;
  // About how long it will take: how long Finish may look for the end before it sleeps.
  double expected_ns = 0;
  // Where Finish adds when each stage ran; null: nobody asks.
  PieceRecord* record = nullptr;
};

// Bytes that a piece moved over the bus to a GPU, and from it.
struct CopiedBytes {
  uint64_t in = 0;
  uint64_t out = 0;
};

// Bytes of models' weights on a device now, and how often weights have been brought there.
struct DeviceWeights {
  uint64_t bytes = 0;
  uint64_t uploads = 0;
};

// One worker's place on a device: buffers, and on a GPU streams. Works on one piece of a batch at a time.
class Lane {
 public:
  virtual ~Lane() = default;
  // Starts scoring into the batch's results; may return before they are there. After OK, Finish comes before the next
  // Start. After an error nothing of this work runs any more, and the results of these rows are undefined.
  virtual absl::Status Start(const LaneWork& work) = 0;
  // Waits until the results are there. Adds launch, transfer_in, compute and transfer_out to `stages`. After an error
  // as with Start. May be called on another thread than Start.
  virtual absl::Status Finish(StageTimes& stages) = 0;
  // What the work that was started last has moved, or will have: by copies, and by kernels that read and write where
  // the batch lies. `gpu`: of a device that is several GPUs, in their order.
  virtual CopiedBytes copied(size_t /*gpu*/) const { return {}; }

  // Both, one after the other.
  absl::Status Score(const LaneWork& work, StageTimes& stages) {
    if (absl::Status status = Start(work); !status.ok()) return status;
    return Finish(stages);
  }
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  // Lanes that are to score at once.
  virtual size_t lanes() const = 0;
  // Any thread may use it, one at a time. Errors: RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<std::unique_ptr<Lane>> MakeLane() = 0;
  // Makes the calling thread, one of the engine's own, a good one to start work on this device.
  virtual absl::Status BindThread() { return absl::OkStatus(); }
  // Any thread. `model` outlives the resident. Errors: RESOURCE_EXHAUSTED before anything is allocated when the weights
  // do not fit into the device's memory or its budget.
  virtual absl::StatusOr<std::unique_ptr<ResidentModel>> Load(const Model& model) = 0;
  // Any thread.
  virtual DeviceWeights weights() const { return {}; }
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_BACKEND_H_
