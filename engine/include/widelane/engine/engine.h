// The engine: keeps models on devices and scores batches of rows.
//
//   auto engine = Engine::Create({});
//   auto model = (*engine)->Load(*ReadModelFile(path));
//   SlabHandle slab = (*engine)->TakeSlab();
//   slab->Open(*model, {.values = Values::kOnes});
//   ... Claim, PackRows, Seal ...
//   (*engine)->Submit(std::move(slab), listener, Where::kAnywhere);
//
// Or, for arrays of any size, all of it at once on the calling thread's time: (*engine)->ScoreCsr(...).
//
// All functions may be called from any thread. Create, Load and ScoreCsr take their time; the others never block.

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
#include "widelane/engine/route.h"
#include "widelane/engine/slab.h"
#include "widelane/engine/stages.h"
#include "widelane/engine/use.h"

namespace widelane {

struct Backends;      // src/backends.h
class CostTable;      // src/costs.h
class ResidentModel;  // src/backend.h

// What a batch of this model costs on one route, as measured when it was loaded.
struct RouteCost {
  Route route = Route::kInline;
  size_t device = 0;  // index into Engine::devices(); of a model cut over GPUs, the first of them
  BatchKind kind;
  Cost cost;
};

// A model with its weights on every device in use. Dropped when nobody holds it any more; the weights go then.
class LoadedModel {
 public:
  // For the engine and its tests.
  LoadedModel(std::shared_ptr<const Model> model, std::vector<std::unique_ptr<ResidentModel>> residents, bool sharded);
  ~LoadedModel();

  const Model& model() const { return *model_; }
  // Whether the weights are cut over the GPUs by features, because one GPU's memory does not hold them.
  bool sharded() const { return sharded_; }
  // One line for each route, device and kind that was measured; never changes once the model is loaded.
  const std::vector<RouteCost>& costs() const { return costs_; }

  // For the engine: the weights on each device, null where they are not, and what predicts times.
  const ResidentModel* resident(size_t device) const { return residents_[device].get(); }
  const CostTable& cost_table() const { return *cost_table_; }

 private:
  friend class Engine;
  void SetCosts(std::unique_ptr<const CostTable> table);

  const std::shared_ptr<const Model> model_;
  const std::vector<std::unique_ptr<ResidentModel>> residents_;
  const bool sharded_;
  std::unique_ptr<const CostTable> cost_table_;
  std::vector<RouteCost> costs_;
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
  // results are there. A device has become free before the call, so StartsAtOnce() counts it. Must not block for
  // long.
  virtual void OnBatchDone(SlabHandle slab) = 0;
};

// Where ScoreCsr writes; null where not wanted. With best > 0 only the best outputs.
struct CsrResults {
  float* scores = nullptr;           // [rows][outputs]
  double* raw = nullptr;             // [rows][outputs]
  uint32_t best = 0;                 // at most kMaxBest and the model's outputs
  uint32_t* best_outputs = nullptr;  // [rows][best]
  float* best_scores = nullptr;      // [rows][best]
};

struct CsrReport {
  uint64_t ignored = 0;  // entries of unknown features
  uint32_t batches = 0;
  Route route = Route::kAuto;  // that the batches took; kAuto when there were none
  // The longest of each among the batches, but the sum of pack.
  StageTimes stages;
};

// Where Submit may score a small batch.
enum class Where {
  kAnywhere,      // on the calling thread too, OnBatchDone then runs inside Submit
  kEngineThreads  // never on the calling thread: for callers inside OnBatchDone
};

enum class Start : uint8_t { kLater, kOnCaller, kOnDevice };

class Engine {
 public:
  // Finds devices, makes slabs, starts threads. Errors: FAILED_PRECONDITION when `devices` names GPUs and there are
  // none (in the driver's own words), INVALID_ARGUMENT for options out of range, RESOURCE_EXHAUSTED without memory.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineOptions& options);
  // With devices made elsewhere (tests): see Backends in src/backends.h.
  static absl::StatusOr<std::unique_ptr<Engine>> CreateWithDevices(const EngineOptions& options, Backends backends);
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

  // Uploads the weights to every device (or cuts them over the GPUs, when one's memory does not hold them), runs every
  // kernel the model can need on each and compares its bits with the CPU's, and measures costs, in about a second.
  // Errors: RESOURCE_EXHAUSTED when the GPUs' memory is too small, INVALID_ARGUMENT for more outputs than a slab's
  // results, INTERNAL when a device fails or computes other bits.
  absl::StatusOr<std::shared_ptr<const LoadedModel>> Load(std::shared_ptr<const Model> model);

  // A free slab, or null when all are in use. Never blocks.
  SlabHandle TakeSlab();

  // Pieces of batches that a device failed to score and the CPU scored instead, since the start. A GPU that failed once
  // gets no more work.
  uint64_t device_failures() const;
  // How devices and slabs are used. Takes locks that batches take for a moment: not for each batch.
  EngineUse use() const;

  // How a batch of this model, kind and size would start if it were submitted now, where the engine would send it: on
  // the calling thread (if `where` allows that; with the CPU pool's help, too), on an idle CPU pool, on a free lane of
  // a GPU, or only later. Of a batch that is cut over several GPUs: on one of them. `callers`: how many requests are at
  // work on the CPU at once, those of this batch as one; each of them makes the others' help dearer.
  Start HowItStarts(const LoadedModel& model, const BatchKind& kind, uint64_t rows, uint64_t entries, Where where,
                    uint64_t callers = 1) const;
  bool StartsAtOnce(const LoadedModel& model, const BatchKind& kind, uint64_t rows, uint64_t entries,
                    Where where) const {
    return HowItStarts(model, kind, rows, entries, where) != Start::kLater;
  }

  // The way of a small batch that touches nothing others use: a slab of the caller's own and no listener.
  //
  // A slab outside the pool, of plain host memory, for ScoreHere and never for Submit. Used by one thread at a time;
  // must not outlive the engine. Sizes are within EngineLimits. Null when there is no memory.
  std::unique_ptr<Slab> MakeSlab(const SlabOptions& options);
  // Whether ScoreHere would score such a batch now, to be asked before anything is packed: whether the engine's route
  // and the measured costs send it to the calling thread, for 2 ms at most (a route of kInline apart), and fewer
  // threads are scoring than the CPU has for it. Takes no lock. `callers`: as in HowItStarts.
  bool IsFirstHere(const LoadedModel& model, const BatchKind& kind, uint64_t rows, uint64_t entries,
                   uint64_t callers = 1) const;
  // Scores a sealed slab of MakeSlab on the calling thread: its status, stages, device and route are set, and its
  // results are there. False when IsFirstHere says no; nothing has happened then. Takes no lock. Several slabs at once.
  bool ScoreHere(Slab& slab, uint64_t callers = 1);

  // Scores a sealed batch. Never blocks, unless it scores on the calling thread, for 2 ms at most (a route of kInline
  // apart). May start work on a GPU itself, which then is the calling thread's current one. `route` other than kAuto
  // goes before the engine's own option; one that is not to be had (no GPU, or `where` forbids it) is replaced by the
  // nearest. `callers`: as in HowItStarts.
  void Submit(SlabHandle slab, BatchListener& listener, Where where, Route route = Route::kAuto, uint64_t callers = 1);

  // Scores arrays of any number of rows: cuts them into slabs, packs with all of the engine's threads while devices
  // work on what is packed, and writes the results in the rows' order. Blocks; waits for slabs if others use them.
  // `csr` has passed CheckShape and `contexts`, if there are any, CheckContexts (max_rows and max_entries may be any).
  // Errors: as PackRows and ContextSums::Compute, and a device's.
  absl::StatusOr<CsrReport> ScoreCsr(const std::shared_ptr<const LoadedModel>& model, const CsrView& csr,
                                     const CsrResults& results, Route route = Route::kAuto,
                                     const RowContexts* contexts = nullptr);

 private:
  class Impl;
  friend class CsrJob;  // src/score_csr.cc
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_ENGINE_H_
