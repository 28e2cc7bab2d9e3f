#include "router.h"

#include <algorithm>
#include <limits>

namespace widelane {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Of routes that are about equal the calling thread is taken: it leaves the others free, and nothing is handed over.
constexpr double kCallerAdvantage = 0.95;
// What a batch costs the CPU besides when others work on it: locks, a launch, threads that wake up.
constexpr double kHandOverNs = 30'000;

double Predict(const CostTable& costs, Route route, size_t device, const RouteRequest& request) {
  const CostCurve* curve = costs.Find(route, device, request.kind);
  return curve == nullptr ? kNever : curve->Predict(request.rows, request.entries);
}

double PredictInline(const CostTable& costs, const RouteRequest& request) {
  return kCallerAdvantage * Predict(costs, Route::kInline, 0, request);
}

double Callers(const RouteRequest& request) { return static_cast<double>(std::max<uint64_t>(request.callers, 1)); }

size_t GpuCount(const RouteRequest& request) { return std::min(request.gpus.size(), kMaxGpus); }

// Keeps the route that ends first; the earlier of equals.
class Best {
 public:
  // `slowdown`: what all of it takes longer because others are at work in the same place.
  void Offer(Route route, size_t device, double backlog_ns, double ns, double slowdown = 1) {
    const double end_ns = slowdown * (backlog_ns + ns);
    if (end_ns >= end_ns_) return;
    end_ns_ = end_ns;
    choice_ = {route, device, ns};
  }
  bool found() const { return end_ns_ < kNever; }
  const RouteChoice& choice() const { return choice_; }

 private:
  double end_ns_ = kNever;
  RouteChoice choice_;
};

// When a GPU can start, and how long it would take for the whole batch.
struct Worker {
  double start = kNever;
  double work = 1;
};

Worker WorkerOf(const CostTable& costs, const RouteRequest& request, const GpuLoad& gpu) {
  const CostCurve* curve = costs.Find(Route::kCopied, gpu.device, request.kind);
  if (curve == nullptr) return {};
  const double all = curve->Predict(request.rows, request.entries);
  const double fixed = std::min(curve->line().fixed_ns, all / 2);
  return {gpu.backlog_ns + fixed, std::max(1.0, all - fixed)};
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

void OfferGpu(const CostTable& costs, const RouteRequest& request, Route route, Best& best) {
  for (size_t i = 0; i < GpuCount(request); ++i) {
    const GpuLoad& gpu = request.gpus[i];
    best.Offer(route, gpu.device, gpu.backlog_ns, Predict(costs, route, gpu.device, request));
  }
}

// What cutting gains is measured on idle GPUs; what the backlog adds to that is arithmetic.
void OfferAllGpus(const CostTable& costs, const RouteRequest& request, Best& best) {
  if (GpuCount(request) < 2 || request.rows < uint64_t{2} * kGroupRows) return;
  const double idle_ns = Predict(costs, Route::kAllGpus, request.gpus[0].device, request);
  const double shared_ns = ShareOverGpus(costs, request).end_ns;
  if (idle_ns < kNever || request.route != Route::kAuto) {
    best.Offer(Route::kAllGpus, request.gpus[0].device, 0, idle_ns < kNever ? std::max(idle_ns, shared_ns) : shared_ns);
  }
}

void OfferCpu(const CostTable& costs, const RouteRequest& request, Best& best) {
  if (request.may_use_caller) best.Offer(Route::kInline, 0, 0, PredictInline(costs, request));
  best.Offer(Route::kPool, 0, request.pool_backlog_ns, Predict(costs, Route::kPool, 0, request), Callers(request));
}

void Offer(const CostTable& costs, const RouteRequest& request, Route route, Best& best) {
  switch (route) {
    case Route::kInline:
    case Route::kPool:
      if (route == Route::kInline && request.may_use_caller) {
        best.Offer(route, 0, 0, PredictInline(costs, request));
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

Shares ShareOverGpus(const CostTable& costs, const RouteRequest& request) {
  std::array<Worker, kMaxGpus> workers;
  const size_t gpus = GpuCount(request);
  for (size_t i = 0; i < gpus; ++i) workers[i] = WorkerOf(costs, request, request.gpus[i]);
  Shares shares;
  shares.end_ns = CommonEnd(absl::MakeConstSpan(workers.data(), gpus));
  for (size_t i = 0; i < gpus; ++i) {
    const Worker& worker = workers[i];
    shares.gpu[i] = worker.start < shares.end_ns ? (shares.end_ns - worker.start) / worker.work : 0;
  }
  return shares;
}

bool CallerIsFirst(const CostTable& costs, const RouteRequest& request) {
  if (request.route != Route::kAuto || !request.may_use_caller || request.gpus_only) return false;
  const double inline_ns = PredictInline(costs, request);
  const double callers = Callers(request);
  const double hand_over_ns = callers > 1 ? kHandOverNs : 0;
  return inline_ns <= costs.LeastOnGpus(request.kind) + hand_over_ns &&
         inline_ns <= callers * Predict(costs, Route::kPool, 0, request);
}

RouteChoice ChooseRoute(const CostTable& costs, const RouteRequest& request) {
  Best best;
  Offer(costs, request, request.route, best);
  // What was asked for is not to be had: the nearest is a GPU for those who asked for one, else the CPU.
  if (!best.found()) OfferCpu(costs, request, best);
  return best.found() ? best.choice() : RouteChoice{request.may_use_caller ? Route::kInline : Route::kPool, 0, 0};
}

}  // namespace widelane
