#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "engine_impl.h"
#include "router.h"

namespace widelane {

size_t Engine::Impl::CpuThreads() const {
  return backends_.pool == nullptr ? backends_.devices[0]->lanes() : backends_.pool->helpers() + 1;
}

Engine::Impl::UsableGpus Engine::Impl::GpusFor(const LoadedModel& model) const {
  UsableGpus gpus;
  const auto add = [&](GpuQueue* queue) {
    if (queue == nullptr || queue->failed() || model.resident(queue->place().resident) == nullptr) return;
    gpus.queues[gpus.count] = queue;
    gpus.loads[gpus.count] = {queue->place().device, queue->backlog_ns()};
    ++gpus.count;
  };
  if (model.sharded()) {
    add(sharded_queue_.load(std::memory_order_acquire));
  } else {
    for (const std::unique_ptr<GpuQueue>& queue : gpu_queues_) add(queue.get());
  }
  return gpus;
}

RouteRequest Engine::Impl::Request(const BatchKind& kind, uint64_t rows, uint64_t entries, Where where,
                                   Route route) const {
  return {.kind = kind,
          .rows = rows,
          .entries = entries,
          .route = route == Route::kAuto ? options_.route : route,
          .may_use_caller = where == Where::kAnywhere,
          .gpus_only = options_.devices.kind == DeviceSelection::Kind::kGpu ||
                       options_.devices.kind == DeviceSelection::Kind::kList,
          .pool_backlog_ns = static_cast<double>(pool_backlog_ns_.load(std::memory_order_relaxed)),
          .gpus = {}};
}

RouteRequest Engine::Impl::BatchRequest(const LoadedModel& model, const BatchKind& kind, uint64_t rows,
                                        uint64_t entries, Where where, Route route, uint64_t callers) const {
  RouteRequest request = Request(kind, rows, entries, where, route);
  request.callers = std::min<uint64_t>(callers, CpuThreads());
  const CostCurve* const alone = model.cost_table().Find(Route::kInline, 0, kind);
  if (alone != nullptr && request.route != Route::kInline && alone->Predict(rows, entries) > kLongestOnCallerNs) {
    request.may_use_caller = false;
  }
  return request;
}

RouteChoice Engine::Impl::Choose(const LoadedModel& model, const BatchKind& kind, uint64_t rows, uint64_t entries,
                                 Where where, Route route) const {
  const UsableGpus gpus = GpusFor(model);
  RouteRequest request = Request(kind, rows, entries, where, route);
  request.gpus = absl::MakeConstSpan(gpus.loads.data(), gpus.count);
  return ChooseRoute(model.cost_table(), request);
}

bool Engine::Impl::IsFirstHere(const LoadedModel& model, const BatchKind& kind, uint64_t rows, uint64_t entries,
                               uint64_t callers) const {
  if (!HasThreadToSpare()) return false;
  const RouteRequest request = BatchRequest(model, kind, rows, entries, Where::kAnywhere, Route::kAuto, callers);
  return request.route == Route::kInline || CallerIsFirst(model.cost_table(), request);
}

// Small batches whose caller is sure to be first need no look at the devices.
Start Engine::Impl::HowItStarts(const LoadedModel& model, const BatchKind& kind, uint64_t rows, uint64_t entries,
                                Where where, uint64_t callers) const {
  if (rows == 0) return Start::kOnCaller;
  const CostTable& costs = model.cost_table();
  RouteRequest request = BatchRequest(model, kind, rows, entries, where, Route::kAuto, callers);
  if (CallerIsFirst(costs, request) && HasThreadToSpare()) return Start::kOnCaller;
  const UsableGpus gpus = GpusFor(model);
  request.gpus = absl::MakeConstSpan(gpus.loads.data(), gpus.count);
  return HowItStarts(ChooseRoute(costs, request), request, costs, gpus);
}

Start Engine::Impl::HowItStarts(const RouteChoice& choice, const RouteRequest& request, const CostTable& costs,
                                const UsableGpus& gpus) const {
  const auto has_free_lane = [](const GpuQueue* queue) { return queue->load() < queue->lanes(); };
  switch (choice.route) {
    case Route::kMapped:
    case Route::kCopied:
      for (size_t i = 0; i < gpus.count; ++i) {
        if (gpus.queues[i]->place().device == choice.device && has_free_lane(gpus.queues[i])) return Start::kOnDevice;
      }
      return Start::kLater;
    case Route::kAllGpus: {
      const Shares shares = ShareOverGpus(costs, request);
      // One is enough: lanes of all GPUs are hardly ever free at once beside smaller batches.
      for (size_t i = 0; i < gpus.count; ++i) {
        if (shares.gpu[i] > 0 && has_free_lane(gpus.queues[i])) return Start::kOnDevice;
      }
      return Start::kLater;
    }
    case Route::kInline:
      return HasThreadToSpare() ? Start::kOnCaller : Start::kLater;
    default:
      if (cpu_queue_->load() + RunningHere() >= CpuThreads()) return Start::kLater;
      return request.may_use_caller ? Start::kOnCaller : Start::kOnDevice;
  }
}

}  // namespace widelane
