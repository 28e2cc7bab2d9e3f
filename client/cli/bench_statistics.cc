#include "client/cli/bench_statistics.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "client/cli/microseconds.h"

namespace widelane::cli {
namespace {

using std::chrono::nanoseconds;

// The nearest rank. `sorted` is not empty.
nanoseconds Quantile(const std::vector<nanoseconds>& sorted, double share) {
  return sorted[static_cast<size_t>(std::lround(share * static_cast<double>(sorted.size() - 1)))];
}

}  // namespace

std::string CallSummary::route() const {
  const auto most = std::max_element(routes.begin(), routes.end());
  return *most == 0 ? "" : kRouteNames[static_cast<size_t>(most - routes.begin())];
}

CallSummary Summarise(const std::vector<BenchCall>& calls) {
  CallSummary summary;
  summary.calls = calls.size();
  std::vector<nanoseconds> times(calls.size());
  const auto sorted = [&](const auto& time) {
    std::transform(calls.begin(), calls.end(), times.begin(), time);
    std::sort(times.begin(), times.end());
  };
  sorted([](const BenchCall& call) { return call.time; });
  summary.total = Microseconds(std::accumulate(times.begin(), times.end(), nanoseconds{0}));
  summary.min = Microseconds(times.front());
  summary.p10 = Microseconds(Quantile(times, 0.1));
  summary.median = Microseconds(Quantile(times, 0.5));
  summary.p90 = Microseconds(Quantile(times, 0.9));
  for (size_t stage = 0; stage < kStages; ++stage) {
    sorted([stage](const BenchCall& call) { return call.stages.time[stage]; });
    summary.stages.time[stage] = Quantile(times, 0.5);
  }
  for (const BenchCall& call : calls) {
    if (call.route.has_value() && *call.route != Route::kAuto) ++summary.routes[static_cast<size_t>(*call.route)];
  }
  return summary;
}

}  // namespace widelane::cli
