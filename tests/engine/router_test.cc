#include "router.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

namespace widelane {
namespace {

constexpr Cost kAlone{.fixed_ns = 100, .row_ns = 2, .entry_ns = 0.5};
constexpr Cost kPool{.fixed_ns = 6000, .row_ns = 0.2, .entry_ns = 0.05};
constexpr Cost kMapped{.fixed_ns = 15000, .row_ns = 1, .entry_ns = 0.1};
constexpr Cost kCopied{.fixed_ns = 25000, .row_ns = 0.1, .entry_ns = 0.02};

class RouterTest : public ::testing::Test {
 protected:
  RouterTest() {
    costs_.Set(Route::kInline, 0, {}, CostCurve::Line(kAlone));
    costs_.Set(Route::kPool, 0, {}, CostCurve::Line(kPool));
  }

  void AddGpus(size_t count) {
    for (size_t device = 1; device <= count; ++device) {
      costs_.Set(Route::kMapped, device, {}, CostCurve::Line(kMapped));
      costs_.Set(Route::kCopied, device, {}, CostCurve::Line(kCopied));
      loads_.push_back({device, 0});
    }
    if (count > 1) {
      const Cost all{.fixed_ns = 45000, .row_ns = kCopied.row_ns / 2, .entry_ns = kCopied.entry_ns / 2};
      costs_.Set(Route::kAllGpus, 1, {}, CostCurve::Line(all));
    }
  }

  RouteChoice Choose(uint64_t rows, Route route = Route::kAuto) {
    request_.rows = rows;
    request_.entries = rows * 40;
    request_.route = route;
    request_.gpus = loads_;
    costs_.Finish();
    return ChooseRoute(costs_, request_);
  }

  CostTable costs_;
  std::vector<GpuLoad> loads_;
  RouteRequest request_;
};

TEST_F(RouterTest, TakesTheFastestForEachSize) {
  AddGpus(2);
  EXPECT_EQ(Choose(1).route, Route::kInline);
  EXPECT_EQ(Choose(1000).route, Route::kPool);
  EXPECT_EQ(Choose(20'000).route, Route::kCopied);
  EXPECT_EQ(Choose(200'000).route, Route::kAllGpus);
}

TEST_F(RouterTest, CountsWhatIsWaiting) {
  AddGpus(2);
  loads_[0].backlog_ns = 1e6;
  request_.gpus_only = true;
  const RouteChoice choice = Choose(20'000);
  EXPECT_EQ(choice.route, Route::kCopied);
  EXPECT_EQ(choice.device, 2U) << "the first GPU is busy";
  loads_[1].backlog_ns = 1e6;
  request_.gpus_only = false;
  EXPECT_EQ(Choose(20'000).route, Route::kPool) << "both are";
  request_.pool_backlog_ns = 1e9;
  EXPECT_EQ(Choose(1000).route, Route::kInline) << "a busy pool leaves the caller its own core";
}

TEST_F(RouterTest, KeepsOffTheCallingThreadWhereToldTo) {
  request_.may_use_caller = false;
  EXPECT_EQ(Choose(1).route, Route::kPool);
  EXPECT_EQ(Choose(1, Route::kInline).route, Route::kPool);
}

TEST_F(RouterTest, ReplacesARouteThatIsNotThereByTheNearest) {
  EXPECT_EQ(Choose(1, Route::kMapped).route, Route::kInline);
  EXPECT_EQ(Choose(100'000, Route::kAllGpus).route, Route::kPool);
  AddGpus(1);
  EXPECT_EQ(Choose(100'000, Route::kAllGpus).route, Route::kCopied);
  EXPECT_EQ(Choose(1, Route::kCopied).route, Route::kCopied);
  EXPECT_EQ(Choose(100'000, Route::kMapped).route, Route::kMapped);
}

TEST_F(RouterTest, IsSureOfTheCallingThreadOnlyBelowEveryOther) {
  Choose(1);
  EXPECT_TRUE(CallerIsFirst(costs_, request_));
  Choose(1000);
  EXPECT_FALSE(CallerIsFirst(costs_, request_));
  Choose(1, Route::kPool);
  EXPECT_FALSE(CallerIsFirst(costs_, request_));
  request_.may_use_caller = false;
  Choose(1);
  EXPECT_FALSE(CallerIsFirst(costs_, request_));
}

TEST_F(RouterTest, TheMoreCallersTheLargerTheBatchesTheyScoreThemselves) {
  Choose(1000);
  EXPECT_FALSE(CallerIsFirst(costs_, request_));
  request_.callers = 1000;
  EXPECT_TRUE(CallerIsFirst(costs_, request_));
  Choose(100'000);
  request_.callers = 2;
  EXPECT_FALSE(CallerIsFirst(costs_, request_));
}

TEST_F(RouterTest, CallersShareThePool) {
  AddGpus(1);
  EXPECT_EQ(Choose(5000).route, Route::kPool);
  const double alone_ns = Choose(5000).predicted_ns;
  request_.callers = 2;
  EXPECT_EQ(Choose(5000).route, Route::kCopied);
  loads_[0].backlog_ns = 50'000;
  EXPECT_EQ(Choose(5000).route, Route::kPool) << "half of the pool is still sooner than a busy GPU";
  EXPECT_EQ(Choose(5000).predicted_ns, alone_ns);
  request_.pool_backlog_ns = 30'000;
  EXPECT_EQ(Choose(5000).route, Route::kCopied) << "what waits there takes longer, too";
}

TEST_F(RouterTest, LeavesTheCpuOutWhereGpusAreDemanded) {
  request_.gpus_only = true;
  EXPECT_EQ(Choose(1).route, Route::kInline) << "there are none";
  AddGpus(1);
  EXPECT_EQ(Choose(1).route, Route::kMapped);
}

TEST_F(RouterTest, SharesABatchSoThatAllEndAtOnce) {
  AddGpus(3);
  loads_[1].backlog_ns = 50'000;
  loads_[2].backlog_ns = 1e9;
  Choose(200'000);
  const Shares shares = ShareOverGpus(costs_, request_);
  EXPECT_NEAR(std::accumulate(shares.gpu.begin(), shares.gpu.end(), 0.0), 1, 1e-9);
  EXPECT_GT(shares.gpu[0], shares.gpu[1]);
  EXPECT_GT(shares.gpu[1], 0);
  EXPECT_EQ(shares.gpu[2], 0);
  const double work = kCopied.Of(200'000, 8'000'000) - kCopied.fixed_ns;
  EXPECT_NEAR(kCopied.fixed_ns + shares.gpu[0] * work, shares.end_ns, 1);
  EXPECT_NEAR(50'000 + kCopied.fixed_ns + shares.gpu[1] * work, shares.end_ns, 1);
}

TEST(CostCurve, PredictsWhatWasMeasured) {
  // Nothing a line could do: flat up to a size, and twice as steep for the smallest.
  std::vector<CostSample> samples;
  for (uint64_t rows = 1; rows <= 1 << 16; rows *= 4) {
    const double work = static_cast<double>(rows) * 40;
    samples.push_back({rows, rows * 40, std::max(9000.0, work * (rows < 1000 ? 2 : 0.5))});
  }
  const CostCurve curve = CostCurve::Fit(samples);
  for (const CostSample& sample : samples) {
    EXPECT_NEAR(curve.Predict(sample.rows, sample.entries) / sample.ns, 1, 0.2) << sample.rows;
  }
}

TEST(CostCurve, FindsTheLineInSamplesOfOne) {
  const Cost line{.fixed_ns = 5000, .row_ns = 3, .entry_ns = 0.25};
  std::vector<CostSample> samples;
  for (const uint64_t row_entries : {10, 80}) {
    for (uint64_t rows = 1; rows <= 1 << 16; rows *= 4) {
      samples.push_back({rows, rows * row_entries, line.Of(rows, rows * row_entries)});
    }
  }
  const CostCurve curve = CostCurve::Fit(samples);
  EXPECT_NEAR(curve.line().fixed_ns, line.fixed_ns, 50);
  EXPECT_NEAR(curve.line().row_ns, line.row_ns, 0.3);
  EXPECT_NEAR(curve.line().entry_ns, line.entry_ns, 0.01);
  EXPECT_NEAR(curve.Predict(300, 12'000) / line.Of(300, 12'000), 1, 0.01);
}

TEST(CostCurve, NeverPromisesNothing) {
  const CostCurve curve = CostCurve::Fit({{1, 40, 100}, {4, 160, 90}, {16, 640, 80}});
  for (uint64_t rows = 1; rows < uint64_t{1} << 40; rows *= 16) {
    EXPECT_GT(curve.Predict(rows, rows * 40), 0);
    EXPECT_LT(curve.Predict(rows, rows * 40), std::numeric_limits<double>::infinity());
  }
}

TEST(CostTable, AnswersKindsThatWereNotMeasuredWithTheNearest) {
  CostTable table;
  table.Set(Route::kInline, 0, {Values::kOnes, 0}, CostCurve::Line({.fixed_ns = 1}));
  table.Set(Route::kInline, 0, {Values::kFloat32, 0}, CostCurve::Line({.fixed_ns = 2}));
  table.Set(Route::kInline, 0, {Values::kOnes, 10}, CostCurve::Line({.fixed_ns = 3}));
  table.Finish();
  EXPECT_EQ(table.Find(Route::kInline, 0, {Values::kFloat32, 0})->line().fixed_ns, 2);
  EXPECT_EQ(table.Find(Route::kInline, 0, {Values::kFloat16, 7})->line().fixed_ns, 3);
  EXPECT_EQ(table.Find(Route::kInline, 1, {}), nullptr);
  EXPECT_EQ(table.Find(Route::kPool, 0, {}), nullptr);
  EXPECT_EQ(table.Lines().size(), 3U);
}

TEST(ParseRoute, KnowsTheNames) {
  for (size_t i = 0; i < kRouteNames.size(); ++i) EXPECT_EQ(*ParseRoute(kRouteNames[i]), static_cast<Route>(i));
  const auto unknown = ParseRoute("fast");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(unknown.status().message().find("all_gpus"), absl::string_view::npos);
}

}  // namespace
}  // namespace widelane
