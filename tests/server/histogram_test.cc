#include "server/observe/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

namespace widelane {
namespace {

// The first bound that is not below the value.
size_t BucketOf(const std::vector<uint64_t>& bounds, uint64_t value) {
  return static_cast<size_t>(std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin());
}

TEST(BucketsTest, AreExactAroundEveryBoundAndEveryPowerOfTwo) {
  const uint64_t largest = std::numeric_limits<uint64_t>::max();
  for (const std::vector<uint64_t>& bounds :
       {DurationBounds(), SizeBounds(), std::vector<uint64_t>{1}, std::vector<uint64_t>{5, 10, 20}, {}}) {
    const Buckets buckets(bounds);
    std::vector<uint64_t> values = {0, largest};
    for (const uint64_t bound : bounds) values.insert(values.end(), {bound - 1, bound, bound + 1});
    for (int bit = 0; bit < 64; ++bit) {
      const uint64_t power = uint64_t{1} << bit;
      values.insert(values.end(), {power - 1, power, power + 1});
    }
    for (const uint64_t value : values) EXPECT_EQ(buckets.Of(value), BucketOf(bounds, value)) << value;
  }
}

TEST(BucketsTest, AreExactForEverySmallValue) {
  const Buckets sizes(SizeBounds());
  const Buckets durations(DurationBounds());
  for (uint64_t value = 0; value < 100'000; ++value) {
    ASSERT_EQ(sizes.Of(value), BucketOf(SizeBounds(), value)) << value;
    ASSERT_EQ(durations.Of(value), BucketOf(DurationBounds(), value)) << value;
  }
}

TEST(BucketsTest, ShippedBoundsAtLeastDouble) {
  for (const std::vector<uint64_t>& bounds : {DurationBounds(), SizeBounds()}) {
    EXPECT_LE(bounds.size(), Buckets::kMostBounds);
    for (size_t i = 1; i < bounds.size(); ++i) EXPECT_GE(bounds[i], 2 * bounds[i - 1]) << i;
  }
}

TEST(HistogramTest, CountsUpToAndIncludingEachBound) {
  const Buckets buckets({5, 10, 50, 500, 10'000, 100'000});
  Histogram histogram(buckets);
  for (const int64_t value : {4, 9, 30, 50, 400, 25'000, 120'000}) histogram.Observe(value, OwnStripe());
  const auto page = histogram.Collect(1e4);
  const std::vector<uint64_t> expected = {1, 2, 4, 5, 5, 6, 7};
  ASSERT_EQ(page.bucket.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(page.bucket[i].cumulative_count, expected[i]) << i;
  EXPECT_EQ(page.bucket[0].upper_bound, 0.0005);
  EXPECT_TRUE(std::isinf(page.bucket.back().upper_bound));
  EXPECT_EQ(page.sample_count, 7u);
  EXPECT_NEAR(page.sample_sum, 14.5493, 1e-9);
}

TEST(HistogramTest, TakesTimeThatStepsBackForNone) {
  const Buckets buckets({1});
  Histogram histogram(buckets);
  histogram.Observe(-5, OwnStripe());
  EXPECT_EQ(histogram.Collect(1).bucket[0].cumulative_count, 1u);
  EXPECT_EQ(histogram.Collect(1).sample_sum, 0);
}

TEST(HistogramTest, AgreesWithItselfWhileItIsObserved) {
  const Buckets buckets(DurationBounds());
  Histogram histogram(buckets);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; !stop; ++n) histogram.Observe(1000 * ((n + i) % 100000), OwnStripe());
    });
  }
  for (int round = 0; round < 2000; ++round) {
    const auto page = histogram.Collect(kSecond);
    for (size_t i = 1; i < page.bucket.size(); ++i)
      ASSERT_GE(page.bucket[i].cumulative_count, page.bucket[i - 1].cumulative_count);
    ASSERT_EQ(page.bucket.back().cumulative_count, page.sample_count);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(HistogramTest, ShowsShippedBoundsAsSecondsExactly) {
  const std::vector<double> seconds = {1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3,
                                       5e-3, 1e-2, 2e-2, 5e-2, 0.1,  0.2,  0.5,  1.0,  2.0,  5.0,  10.0};
  const Buckets buckets(DurationBounds());
  const auto page = Histogram(buckets).Collect(kSecond);
  ASSERT_EQ(page.bucket.size(), seconds.size() + 1);
  for (size_t i = 0; i < seconds.size(); ++i) EXPECT_EQ(page.bucket[i].upper_bound, seconds[i]);
}

}  // namespace
}  // namespace widelane
