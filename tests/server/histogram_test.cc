#include "server/observe/histogram.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

namespace widelane {
namespace {

TEST(HistogramTest, CountsUpToAndIncludingEachBound) {
  const std::vector<double> bounds = {0.0005, 0.001, 0.005, 0.05, 1, 10};
  Histogram histogram(bounds);
  for (const double value : {0.0004, 0.0009, 0.003, 0.005, 0.040, 2.5, 12.0}) histogram.Observe(value);
  const auto page = histogram.Collect();
  const std::vector<uint64_t> expected = {1, 2, 4, 5, 5, 6, 7};
  ASSERT_EQ(page.bucket.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(page.bucket[i].cumulative_count, expected[i]) << i;
  EXPECT_TRUE(std::isinf(page.bucket.back().upper_bound));
  EXPECT_EQ(page.sample_count, 7u);
  EXPECT_NEAR(page.sample_sum, 14.5493, 1e-9);
}

TEST(HistogramTest, TakesTimeThatStepsBackForNone) {
  const std::vector<double> bounds = {1};
  Histogram histogram(bounds);
  histogram.Observe(-5);
  EXPECT_EQ(histogram.Collect().bucket[0].cumulative_count, 1u);
  EXPECT_EQ(histogram.Collect().sample_sum, 0);
}

TEST(HistogramTest, AgreesWithItselfWhileItIsObserved) {
  const std::vector<double> bounds = DurationBounds();
  Histogram histogram(bounds);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; !stop; ++n) histogram.Observe(1e-6 * ((n + i) % 100000));
    });
  }
  for (int round = 0; round < 2000; ++round) {
    const auto page = histogram.Collect();
    for (size_t i = 1; i < page.bucket.size(); ++i)
      ASSERT_GE(page.bucket[i].cumulative_count, page.bucket[i - 1].cumulative_count);
    ASSERT_EQ(page.bucket.back().cumulative_count, page.sample_count);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(HistogramTest, ShippedBoundsReachFromMicrosecondsToSeconds) {
  EXPECT_EQ(DurationBounds().front(), 1e-6);
  EXPECT_EQ(DurationBounds().back(), 10);
}

}  // namespace
}  // namespace widelane
