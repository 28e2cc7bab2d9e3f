// Chooses where a batch goes: where it will be done first, counting what is already waiting there.
//
// Pure arithmetic over predicted times; knows no devices and no threads.

#ifndef WIDELANE_ENGINE_SRC_ROUTER_H_
#define WIDELANE_ENGINE_SRC_ROUTER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "costs.h"
#include "widelane/engine/options.h"
#include "widelane/engine/route.h"

namespace widelane {

// A GPU that may take batches, and when it will have done those it has.
struct GpuLoad {
  size_t device = 0;  // index into Engine::devices()
  double backlog_ns = 0;
};

struct RouteRequest {
  BatchKind kind;
  uint64_t rows = 0;  // at least 1
  uint64_t entries = 0;
  Route route = Route::kAuto;      // what to prefer
  bool may_use_caller = true;      // the calling thread may score the batch
  bool gpus_only = false;          // the CPU only when there is no GPU
  double pool_backlog_ns = 0;      // of the CPU pool
  uint64_t callers = 1;            // at work on the CPU at once, no more than it has threads; the pool is all of theirs
  absl::Span<const GpuLoad> gpus;  // those that can be used; at most kMaxGpus are looked at
};

struct RouteChoice {
  Route route = Route::kInline;  // never kAuto
  size_t device = 0;             // for kMapped and kCopied
  double predicted_ns = 0;       // from now to the end, without the backlog
};

inline constexpr size_t kMaxGpus = 64;

// A batch cut over GPUs so that all end at once: the share of each, in the order of the loads, adding up to 1. GPUs
// that are busy for too long get nothing.
struct Shares {
  std::array<double, kMaxGpus> gpu{};
  double end_ns = 0;  // from now, with the backlog
};
Shares ShareOverGpus(const CostTable& costs, const RouteRequest& request);

RouteChoice ChooseRoute(const CostTable& costs, const RouteRequest& request);

// Whether the calling thread is sure to be done first, whatever the backlogs: the choice of most small batches, made
// without looking at the devices. `request.gpus` is not looked at. Where there are other callers the pool's threads are
// theirs, too, and so is the time it takes to hand a batch over.
bool CallerIsFirst(const CostTable& costs, const RouteRequest& request);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_ROUTER_H_
