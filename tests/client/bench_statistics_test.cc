#include "client/cli/bench_statistics.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace widelane::cli {
namespace {

using std::chrono::microseconds;

TEST(BenchStatistics, SummarisesCalls) {
  std::vector<BenchCall> calls;
  // 11 to 1 microseconds.
  for (int i = 11; i >= 1; --i) {
    BenchCall call;
    call.time = microseconds(i);
    call.stages[Stage::kCompute] = microseconds(2 * i);
    call.route = i < 4 ? Route::kPool : Route::kMapped;
    calls.push_back(call);
  }
  const CallSummary summary = Summarise(calls);
  EXPECT_EQ(summary.calls, 11);
  EXPECT_DOUBLE_EQ(summary.total, 66);
  EXPECT_DOUBLE_EQ(summary.median, 6);
  EXPECT_DOUBLE_EQ(summary.min, 1);
  EXPECT_DOUBLE_EQ(summary.p10, 2);
  EXPECT_DOUBLE_EQ(summary.p90, 10);
  EXPECT_EQ(summary.stages[Stage::kCompute], microseconds(12));
  EXPECT_EQ(summary.route(), "mapped");
  EXPECT_EQ(summary.routes[static_cast<size_t>(Route::kPool)], 3);
}

TEST(BenchStatistics, KnowsNoRouteWhereNoneIsTold) { EXPECT_EQ(Summarise({BenchCall{}}).route(), ""); }

}  // namespace
}  // namespace widelane::cli
