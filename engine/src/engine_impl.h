// The engine's inside: devices with their queues, slabs, and the way of a batch. engine.cc has the way of a batch,
// engine_choice.cc how it is chosen, load.cc the way of a model, score_csr.cc that of arrays.

#ifndef WIDELANE_ENGINE_SRC_ENGINE_IMPL_H_
#define WIDELANE_ENGINE_SRC_ENGINE_IMPL_H_

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends.h"
#include "batch_task.h"
#include "cpu_queue.h"
#include "device_meter.h"
#include "gpu_queue.h"
#include "measure.h"
#include "router.h"
#include "slab_pool.h"
#include "thread_pool.h"
#include "widelane/engine/engine.h"

namespace widelane {

class Engine::Impl {
 public:
  Impl(const EngineOptions& options, Backends backends);
  ~Impl();
  absl::Status Start();

  const EngineOptions& options() const { return options_; }
  const std::vector<DeviceInfo>& infos() const { return infos_; }
  const std::string& fallback_reason() const { return backends_.fallback_reason; }
  const std::string& left_out() const { return backends_.left_out; }
  uint64_t device_failures() const;
  EngineUse use() const;
  widelane::Start HowItStarts(const LoadedModel& model, const BatchKind& kind, uint64_t rows, uint64_t entries,
                              Where where, uint64_t callers) const;
  std::unique_ptr<Slab> MakeSlab(const SlabOptions& options) const;
  absl::StatusOr<std::unique_ptr<Lane>> MakeSoloLane();
  bool IsFirstHere(const LoadedModel& model, const BatchKind& kind, uint64_t rows, uint64_t entries,
                   uint64_t callers) const;
  bool ScoreSolo(Lane& lane, Slab& slab, uint64_t callers);
  SlabPool& pool() { return pool_; }
  ThreadPool* threads() { return backends_.pool.get(); }

  absl::StatusOr<std::shared_ptr<const LoadedModel>> Load(std::shared_ptr<const Model> model);
  void Submit(SlabHandle slab, BatchListener& listener, Where where, Route route, uint64_t callers);
  absl::StatusOr<CsrReport> ScoreCsr(const std::shared_ptr<const LoadedModel>& model, const CsrView& csr,
                                     const CsrResults& results, Route route, const RowContexts* contexts);
  // Where a batch of `kind` would go now; `route` as in Submit.
  RouteChoice Choose(const LoadedModel& model, const BatchKind& kind, uint64_t rows, uint64_t entries, Where where,
                     Route route) const;

 private:
  // Queues that hold a model's weights and have not failed.
  struct UsableGpus {
    std::array<GpuQueue*, kMaxGpus> queues;
    std::array<GpuLoad, kMaxGpus> loads;
    size_t count = 0;
  };
  // Lanes of the CPU for calling threads.
  using FreeLanes = std::vector<Lane*>;
  // A calling thread is not kept longer than this with a batch of its own.
  static constexpr double kLongestOnCallerNs = 2e6;

  void AddPoolBacklog(double ns) { pool_backlog_ns_.fetch_add(static_cast<int64_t>(ns), std::memory_order_relaxed); }
  static void OnCpuPieceDone(void* context, const Piece& piece);
  static void OnGpuPieceDone(void* context, const Piece& piece);

  absl::Status MakeCpuLanes();
  absl::Status MakeGpuQueues();
  absl::Status MakeShardedQueue();
  bool HasFailed(size_t device) const;
  // Threads that may score on the CPU at once.
  size_t CpuThreads() const;
  UsableGpus GpusFor(const LoadedModel& model) const;
  // Without the GPUs' loads.
  RouteRequest Request(const BatchKind& kind, uint64_t rows, uint64_t entries, Where where, Route route) const;
  // The same for one batch, with which a calling thread is not kept for long.
  RouteRequest BatchRequest(const LoadedModel& model, const BatchKind& kind, uint64_t rows, uint64_t entries,
                            Where where, Route route, uint64_t callers) const;
  bool HasThreadToSpare() const { return RunningHere() < CpuThreads(); }
  // Batches being scored on their callers' threads.
  size_t RunningHere() const { return meters_[0].busy.callers(); }
  widelane::Start HowItStarts(const RouteChoice& choice, const RouteRequest& request, const CostTable& costs,
                              const UsableGpus& gpus) const;

  // The ways of Submit.
  static void ScoreOn(Lane& lane, Slab& slab, std::chrono::steady_clock::time_point begun);
  bool ScoreHere(FreeLanes& lanes, SlabHandle& slab, BatchListener& listener, double predicted_ns);
  void QueueOnCpu(SlabHandle slab, BatchListener& listener, double predicted_ns);
  void QueueOnGpu(SlabHandle slab, BatchListener& listener, GpuQueue& queue, bool mapped, double predicted_ns,
                  bool start_here);
  void QueueOnGpus(SlabHandle slab, BatchListener& listener, const UsableGpus& gpus, const RouteRequest& request,
                   bool start_here);
  Lane* TakeLane(FreeLanes& lanes, std::chrono::steady_clock::time_point now);
  void ReturnLane(FreeLanes& lanes, Lane* lane);
  BatchTask& TakeTask(SlabHandle slab, BatchListener& listener);
  void CountDown(const Piece& piece);
  void Finish(SlabHandle slab, BatchListener& listener);

  // The ways of Load.
  absl::StatusOr<std::vector<std::unique_ptr<ResidentModel>>> Upload(const Model& model, bool& sharded);
  absl::Status Probe(const std::shared_ptr<const LoadedModel>& model, SlabHandle& slab);
  absl::StatusOr<std::unique_ptr<const CostTable>> Measure(const std::shared_ptr<const LoadedModel>& model,
                                                           SlabHandle& slab);
  std::vector<MeasuredRoute> PlacesOf(const LoadedModel& model) const;
  absl::Status RunOnCpu(Lane& lane, SlabHandle& slab, uint32_t rows);
  absl::Status RunOnGpus(SlabHandle& slab, absl::Span<GpuQueue* const> queues, bool mapped, uint32_t rows);

  const EngineOptions options_;
  const std::chrono::microseconds spin_;  // kept, since asking for it reads files
  Backends backends_;
  std::vector<DeviceInfo> infos_;
  SlabPool pool_;
  std::vector<BatchTask> tasks_;
  std::atomic<int64_t> pool_backlog_ns_{0};
  std::vector<DeviceMeter> meters_;  // by device
  const std::unique_ptr<HostMemory> solo_memory_ = MakePlainHostMemory();

  alignas(64) mutable std::mutex mutex_;
  std::condition_variable finished_;
  size_t unfinished_ = 0;  // batches in queues whose listeners have not returned
  std::vector<BatchTask*> free_tasks_;
  std::vector<std::unique_ptr<Lane>> caller_lanes_;  // all of the two below
  FreeLanes inline_lanes_;                           // work alone
  FreeLanes pool_lanes_;                             // with the pool's help

  // What use() said last of how long devices were busy.
  mutable std::mutex use_mutex_;
  mutable std::vector<std::chrono::nanoseconds> busy_told_;

  // What models are tried with when they are loaded; a slab apart, so that no request waits for one.
  std::mutex trial_mutex_;
  SlabPool trial_pool_;
  std::unique_ptr<Lane> trial_alone_;
  std::unique_ptr<Lane> trial_helped_;

  // Last: their threads use everything above.
  std::unique_ptr<CpuQueue> cpu_queue_;
  std::vector<std::unique_ptr<GpuQueue>> gpu_queues_;  // by device, from device 1 on
  // Of models cut over the GPUs; made with the first of them, since its lanes hold much memory.
  std::mutex sharded_mutex_;  // guards the owner
  std::unique_ptr<GpuQueue> sharded_owner_;
  std::atomic<GpuQueue*> sharded_queue_{nullptr};
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_ENGINE_IMPL_H_
