// The engine: keeps models on devices and scores batches of rows.
//
//   auto engine = Engine::Create({});
//   auto model = (*engine)->Load(*ReadModelFile(path));
//   SlabHandle slab = (*engine)->TakeSlab();
//   slab->Open(*model, /*has_values=*/false);
//   ... Claim, PackRows, Seal ...
//   (*engine)->Submit(std::move(slab), listener, Where::kAnywhere);
//
// All functions may be called from any thread. Create is the only slow one besides Load.

#ifndef WIDELANE_ENGINE_ENGINE_H_
#define WIDELANE_ENGINE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "widelane/engine/device.h"
#include "widelane/engine/model.h"
#include "widelane/engine/options.h"
#include "widelane/engine/slab.h"

namespace widelane {

class Device;         // src/backend.h
class ResidentModel;  // src/backend.h

// A model with its weights on every device in use. Dropped when nobody holds it any more; the weights go then.
class LoadedModel {
 public:
  LoadedModel(std::shared_ptr<const Model> model, std::vector<std::unique_ptr<ResidentModel>> residents);
  ~LoadedModel();

  const Model& model() const { return *model_; }
  // One for each of the engine's devices, in their order. For backends.
  const ResidentModel& resident(size_t device) const { return *residents_[device]; }

 private:
  const std::shared_ptr<const Model> model_;
  const std::vector<std::unique_ptr<ResidentModel>> residents_;
};

class SlabPool;
struct ReturnSlab {
  SlabPool* pool;
  void operator()(Slab* slab) const;
};
// Owns a slab for the time of a batch. Must not outlive the engine.
using SlabHandle = std::unique_ptr<Slab, ReturnSlab>;

// Told when a batch is done.
class BatchListener {
 public:
  virtual ~BatchListener() = default;
  // Runs exactly once for each Submit, on a thread of the engine or inside Submit. `slab->status` tells whether the
  // results are there. A device has become free before the call, so HasIdleDevice() counts it. Must not block for long.
  virtual void OnBatchDone(SlabHandle slab) = 0;
};

// Where Submit may score a small batch.
enum class Where {
  kAnywhere,      // on the calling thread too, OnBatchDone then runs inside Submit
  kEngineThreads  // never on the calling thread: for callers inside OnBatchDone
};

class Engine {
 public:
  // Finds devices, makes slabs, starts threads. Errors: FAILED_PRECONDITION when `devices` names GPUs and there are
  // none (in the driver's own words), INVALID_ARGUMENT for options out of range, RESOURCE_EXHAUSTED without memory.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineOptions& options);
  // With devices made elsewhere (tests): the first is the CPU's, or what stands for it, the others take the place of
  // GPUs. `memory` is for the slabs; null: ordinary memory.
  static absl::StatusOr<std::unique_ptr<Engine>> CreateWithDevices(const EngineOptions& options,
                                                                   std::vector<std::unique_ptr<Device>> devices,
                                                                   std::unique_ptr<HostMemory> memory,
                                                                   std::string fallback_reason);
  // Waits for submitted batches. All slabs and models must have been given back, except those of submitted batches.
  ~Engine();

  const EngineOptions& options() const;
  // The CPU, which also stands in for failing GPUs, then the GPUs in use.
  const std::vector<DeviceInfo>& devices() const;
  // Whether batches go to GPUs.
  bool uses_gpus() const;
  // Why `auto` fell back to the CPU, in words; empty when it did not.
  const std::string& fallback_reason() const;
  // GPUs that cannot be used although others can, and why; empty when there are none.
  const std::string& left_out() const;
  // The widest rows and batches the engine takes, for CheckShape.
  CsrLimits limits() const;

  // Uploads the weights to every device and compares a probe on each GPU with the CPU's bits. Errors:
  // RESOURCE_EXHAUSTED when a device's memory is too small, INVALID_ARGUMENT for more outputs than a slab's results,
  // INTERNAL when a device fails or computes other bits.
  absl::StatusOr<std::shared_ptr<const LoadedModel>> Load(std::shared_ptr<const Model> model);

  // A free slab, or null when all are in use. Never blocks.
  SlabHandle TakeSlab();

  // Pieces of batches that a device failed to score and the CPU scored instead, since the start. A GPU that failed once
  // gets no more work.
  uint64_t device_failures() const;

  // Whether a lane has nothing to do, so that a batch submitted now would start at once. A batch that is cut takes
  // several lanes.
  bool HasIdleDevice() const;

  // Scores a sealed batch. Never blocks, unless it scores on the calling thread.
  void Submit(SlabHandle slab, BatchListener& listener, Where where);

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_ENGINE_H_
