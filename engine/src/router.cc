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
  const RouteChoice& choice() const { return choice_; }

 private:
  double end_ns_ = kNever;
  RouteChoice choice_;
};

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
  const double shared_ns = ShareOverGpus(costs, request).end_ns;
  if (idle_ns < kNever || request.route == Route::kAllGpus) {
    best.Offer(Route::kAllGpus, request.gpus[0].device, 0, idle_ns < kNever ? std::max(idle_ns, shared_ns) : shared_ns);
  }
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
    case Route::kAuto:
      OfferGpu(costs, request, Route::kMapped, best);
      OfferGpu(costs, request, Route::kCopied, best);
      OfferAllGpus(costs, request, best);
      if (!request.gpus_only || !best.found()) OfferCpu(costs, request, best);
  }
}

}  // namespace

GpuShares ShareOverGpus(const CostTable& costs, const RouteRequest& request) {
  // GPU g is done with share s of the batch at start_g + s x work_g. All end at T: s_g = (T - start_g) / work_g. Those
  // that start after T drop out, and T is sought again.
  std::array<double, kMaxGpus> start{};
  std::array<double, kMaxGpus> work{};
  const size_t gpus = Gpus(request);
  for (size_t i = 0; i < gpus; ++i) {
    const CostCurve* curve = costs.Find(Route::kCopied, request.gpus[i].device, request.kind);
    const double all = curve == nullptr ? kNever : curve->Predict(request.rows, request.entries);
    const double fixed = curve == nullptr ? 0 : std::min(curve->line().fixed_ns, all / 2);
    start[i] = curve == nullptr ? kNever : request.gpus[i].backlog_ns + fixed;
    work[i] = std::max(1.0, all - fixed);
  }
  GpuShares shares;
  double end = kNever;
  for (size_t round = 0; round < gpus; ++round) {
    double rate = 0;
    double started = 0;
    for (size_t i = 0; i < gpus; ++i) {
      if (start[i] >= end) continue;
      rate += 1 / work[i];
      started += start[i] / work[i];
    }
    const double next = rate > 0 ? (1 + started) / rate : kNever;
    if (!(next < end)) break;
    end = next;
  }
  for (size_t i = 0; i < gpus; ++i) shares.share[i] = start[i] < end ? (end - start[i]) / work[i] : 0;
  shares.end_ns = end;
  return shares;
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
