#include "client/cli/bench_histogram.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>

#include "client/cli/bench_schedule.h"

namespace widelane::cli {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

TEST(LatencyHistogram, IsEmptyAtFirst) {
  const LatencyHistogram histogram;
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_EQ(histogram.Percentile(0.99), 0ns);
  EXPECT_EQ(histogram.mean(), 0ns);
  EXPECT_EQ(histogram.max(), 0ns);
}

TEST(LatencyHistogram, IsExactBelow256Nanoseconds) {
  LatencyHistogram histogram;
  for (int i = 1; i <= 200; ++i) histogram.Add(nanoseconds(i));
  EXPECT_EQ(histogram.Percentile(0), 1ns);
  EXPECT_EQ(histogram.Percentile(0.5), 100ns);
  EXPECT_EQ(histogram.Percentile(0.99), 198ns);
  EXPECT_EQ(histogram.Percentile(1), 200ns);
}

TEST(LatencyHistogram, IsWithinAHundredAndTwentyEighthEverywhere) {
  for (uint64_t value = 1; value < uint64_t{1} << 42; value = value * 9 / 8 + 1) {
    LatencyHistogram histogram;
    histogram.Add(nanoseconds(value));
    histogram.Add(1h);
    const auto found = static_cast<uint64_t>(histogram.Percentile(0.5).count());
    EXPECT_GE(found, std::min<uint64_t>(value, 3'600'000'000'000));
    EXPECT_LE(found - value, value / 128) << value;
    if (value > 3'000'000'000'000) break;
  }
}

TEST(LatencyHistogram, NeverSaysMoreThanTheLargest) {
  LatencyHistogram histogram;
  histogram.Add(1'000'001ns);
  EXPECT_EQ(histogram.Percentile(0.999), 1'000'001ns);
  EXPECT_EQ(histogram.max(), 1'000'001ns);
  EXPECT_EQ(histogram.mean(), 1'000'001ns);
}

TEST(LatencyHistogram, TakesWhatIsBeyondItsEnds) {
  LatencyHistogram histogram;
  histogram.Add(-5ns);
  histogram.Add(48h);
  EXPECT_EQ(histogram.Percentile(0.5), 0ns);
  EXPECT_EQ(histogram.max(), nanoseconds((int64_t{1} << 42) - 1));
}

TEST(LatencyHistogram, AddsUpWhatThreadsHaveSeen) {
  LatencyHistogram one;
  LatencyHistogram other;
  for (int i = 0; i < 99; ++i) one.Add(10us);
  other.Add(50ms);
  one.Merge(other);
  EXPECT_EQ(one.count(), 100);
  EXPECT_EQ(one.max(), 50ms);
  EXPECT_LE(one.Percentile(0.99), 10'079ns);
  EXPECT_EQ(one.Percentile(0.999), 50ms);
  EXPECT_EQ(one.mean(), nanoseconds((99 * 10'000 + 50'000'000) / 100));
}

// A seed fixes the times, so these are no matter of luck.
TEST(PoissonSchedule, HasItsRateAndTheGapsOfIndependentCallers) {
  constexpr int kCalls = 100'000;
  constexpr double kRate = 5'000;
  const PoissonSchedule::TimePoint start;
  PoissonSchedule schedule(kRate, 7, start);
  PoissonSchedule again(kRate, 7, start);
  PoissonSchedule::TimePoint last = start;
  double sum = 0;
  double squares = 0;
  int long_gaps = 0;
  for (int i = 0; i < kCalls; ++i) {
    const auto next = schedule.Next();
    ASSERT_EQ(next, again.Next());
    ASSERT_GE(next, last);
    const double gap = std::chrono::duration<double>(next - last).count() * kRate;
    sum += gap;
    squares += gap * gap;
    long_gaps += static_cast<int>(gap > 3);
    last = next;
  }
  EXPECT_NEAR(sum / kCalls, 1, 0.01);
  EXPECT_NEAR(squares / kCalls, 2, 0.05);  // variance 1
  EXPECT_NEAR(static_cast<double>(long_gaps) / kCalls, std::exp(-3), 0.003);
}

}  // namespace
}  // namespace widelane::cli
