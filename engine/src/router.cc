#include "router.h"

#include <algorithm>
#include <limits>

namespace widelane {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double Predict(const CostTable& costs, Route route, size_t device, const RouteRequest& request) {
  const CostCurve* curve = costs.Find(route, device, request.kind);
  return curve == nullptr ? kNever : curve->Predict(request.rows, request.entries);
}

size_t Gpus(const RouteRequest& request) { return std::min(request.gpus.size(), kMaxGpus); }

// Keeps the route that ends first; the earlier of equals.
class Best {
 public:
  void Offer(Route route, size_t device, double backlog_ns, double ns) {
    if (backlog_ns + ns >= end_ns_) return;
    end_ns_ = backlog_ns + ns;
    choice_ = {route, device, ns};
  }
  bool found() const { return end_ns_ < kNever; }
  double end_ns() const { return end_ns_; }
  const RouteChoice& choice() const { return choice_; }

 private:
  double end_ns_ = kNever;
  RouteChoice choice_;
};

// When a device can start, and how long it would take for the whole batch.
struct Worker {
  double start = kNever;
  double work = 1;
};

Worker WorkerOf(const CostTable& costs, const RouteRequest& request, Route route, size_t device, double backlog_ns) {
  const CostCurve* curve = costs.Find(route, device, request.kind);
  if (curve == nullptr) return {};
  const double all = curve->Predict(request.rows, request.entries);
  const double fixed = std::min(curve->line().fixed_ns, all / 2);
  return {backlog_ns + fixed, std::max(1.0, all - fixed)};
}

// Worker i is done with share s of the batch at start_i + s x work_i. All end at T: s_i = (T - start_i) / work_i. Those
// that start after T drop out, and T is sought again; it falls each time.
double CommonEnd(absl::Span<const Worker> workers) {
  double end = kNever;
  for (size_t round = 0; round < workers.size(); ++round) {
    double rate = 0;
    double started = 0;
    for (const Worker& worker : workers) {
      if (worker.start >= end) continue;
      rate += 1 / worker.work;
      started += worker.start / worker.work;
    }
    const double next = rate > 0 ? (1 + started) / rate : kNever;
    if (!(next < end)) break;
    end = next;
  }
  return end;
}

Shares ShareOver(const CostTable& costs, const RouteRequest& request, bool with_cpu) {
  std::array<Worker, kMaxGpus + 1> workers;
  const size_t gpus = Gpus(request);
  for (size_t i = 0; i < gpus; ++i) {
    workers[i] = WorkerOf(costs, request, Route::kCopied, request.gpus[i].device, request.gpus[i].backlog_ns);
  }
  if (with_cpu) workers[gpus] = WorkerOf(costs, request, Route::kPool, 0, request.pool_backlog_ns);
  Shares shares;
  shares.end_ns = CommonEnd(absl::MakeConstSpan(workers.data(), gpus + (with_cpu ? 1 : 0)));
  const auto share_of = [&shares](const Worker& worker) {
    return worker.start < shares.end_ns ? (shares.end_ns - worker.start) / worker.work : 0;
  };
  for (size_t i = 0; i < gpus; ++i) shares.gpu[i] = share_of(workers[i]);
  if (with_cpu) shares.cpu = share_of(workers[gpus]);
  return shares;
}

void OfferGpu(const CostTable& costs, const RouteRequest& request, Route route, Best& best) {
  for (size_t i = 0; i < Gpus(request); ++i) {
    const GpuLoad& gpu = request.gpus[i];
    best.Offer(route, gpu.device, gpu.backlog_ns, Predict(costs, route, gpu.device, request));
  }
}

// What cutting gains is measured on idle GPUs; what the backlog adds to that is arithmetic.
void OfferAllGpus(const CostTable& costs, const RouteRequest& request, Best& best) {
  if (Gpus(request) < 2 || request.rows < 2 * kGroupRows) return;
  const double idle_ns = Predict(costs, Route::kAllGpus, request.gpus[0].device, request);
  const double shared_ns = ShareOver(costs, request, /*with_cpu=*/false).end_ns;
  if (idle_ns < kNever || request.route != Route::kAuto) {
    best.Offer(Route::kAllGpus, request.gpus[0].device, 0, idle_ns < kNever ? std::max(idle_ns, shared_ns) : shared_ns);
  }
}

// Keeps all cores and all GPUs busy, so it must gain something, and predictions are not exact.
constexpr double kWorthAllDevices = 0.85;

void OfferAllDevices(const CostTable& costs, const RouteRequest& request, Best& best) {
  if (Gpus(request) == 0 || request.rows < 8 * kGroupRows) return;
  const Shares shares = ShareOver(costs, request, /*with_cpu=*/true);
  const bool shared = shares.cpu > 0 && shares.cpu < 1;
  const bool forced = request.route == Route::kAllDevices;
  if (!shared || (!forced && shares.end_ns > kWorthAllDevices * best.end_ns())) return;
  best.Offer(Route::kAllDevices, request.gpus[0].device, 0, shares.end_ns);
}

void OfferCpu(const CostTable& costs, const RouteRequest& request, Best& best) {
  if (request.may_use_caller) best.Offer(Route::kInline, 0, 0, Predict(costs, Route::kInline, 0, request));
  best.Offer(Route::kPool, 0, request.pool_backlog_ns, Predict(costs, Route::kPool, 0, request));
}

void Offer(const CostTable& costs, const RouteRequest& request, Route route, Best& best) {
  switch (route) {
    case Route::kInline:
    case Route::kPool:
      if (route == Route::kInline && request.may_use_caller) {
        best.Offer(route, 0, 0, Predict(costs, route, 0, request));
      } else {
        best.Offer(Route::kPool, 0, 0, Predict(costs, Route::kPool, 0, request));
      }
      return;
    case Route::kMapped:
    case Route::kCopied:
      return OfferGpu(costs, request, route, best);
    case Route::kAllGpus:
      OfferAllGpus(costs, request, best);
      if (!best.found()) OfferGpu(costs, request, Route::kCopied, best);
      return;
    case Route::kAllDevices:
      OfferAllDevices(costs, request, best);
      if (!best.found()) OfferAllGpus(costs, request, best);
      if (!best.found()) OfferGpu(costs, request, Route::kCopied, best);
      return;
    case Route::kAuto:
      OfferGpu(costs, request, Route::kMapped, best);
      OfferGpu(costs, request, Route::kCopied, best);
      OfferAllGpus(costs, request, best);
      if (request.gpus_only && best.found()) return;
      OfferCpu(costs, request, best);
      OfferAllDevices(costs, request, best);
  }
}

}  // namespace

Shares ShareOverGpus(const CostTable& costs, const RouteRequest& request) {
  return ShareOver(costs, request, /*with_cpu=*/false);
}

Shares ShareOverDevices(const CostTable& costs, const RouteRequest& request) {
  return ShareOver(costs, request, /*with_cpu=*/true);
}

bool CallerIsFirst(const CostTable& costs, const RouteRequest& request) {
  if (request.route != Route::kAuto || !request.may_use_caller || request.gpus_only) return false;
  return Predict(costs, Route::kInline, 0, request) <= costs.LeastElsewhere(request.kind);
}

RouteChoice ChooseRoute(const CostTable& costs, const RouteRequest& request) {
  Best best;
  Offer(costs, request, request.route, best);
  // What was asked for is not to be had: the nearest is a GPU for those who asked for one, else the CPU.
  if (!best.found()) OfferCpu(costs, request, best);
  return best.found() ? best.choice() : RouteChoice{request.may_use_caller ? Route::kInline : Route::kPool, 0, 0};
}

}  // namespace widelane
