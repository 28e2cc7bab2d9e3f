#include "client/cli/bench_draw.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

namespace widelane::cli {
namespace {

TEST(BenchDraw, UnitsLieBelowOne) {
  double sum = 0;
  constexpr int kDraws = 100'000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double unit = RandomUnit(7, i);
    ASSERT_GE(unit, 0);
    ASSERT_LT(unit, 1);
    sum += unit;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.01);
}

TEST(BenchDraw, StaysInRangeAtBothEnds) {
  const double last = std::nextafter(1.0, 0.0);
  for (const uint64_t features :
       {uint64_t{1}, uint64_t{2}, uint64_t{54'000}, uint64_t{1'000'000'000}, uint64_t{0xFFFFFFFE}}) {
    for (const double exponent : {0.0, 0.5, 1.0, 1.1, 3.0, 10.0}) {
      const FeatureDraw draw(features, exponent);
      EXPECT_EQ(draw.At(0), 0) << features << " " << exponent;
      for (const double unit : {1e-300, 0.1, 0.5, 0.9, last}) {
        EXPECT_LT(draw.At(unit), features) << features << " " << exponent << " " << unit;
      }
    }
  }
}

TEST(BenchDraw, ReachesEveryFeature) {
  for (const double exponent : {0.0, 1.0}) {
    const FeatureDraw draw(100, exponent);
    std::set<uint32_t> seen;
    for (uint64_t i = 0; i < 100'000; ++i) seen.insert(draw.At(RandomUnit(5, i)));
    EXPECT_EQ(seen.size(), 100) << exponent;
  }
}

// A billion features need more bits than a float has.
TEST(BenchDraw, ReachesOddFeaturesOfManyMillions) {
  const FeatureDraw draw(1'000'000'000, 0);
  int odd = 0;
  for (uint64_t i = 0; i < 1000; ++i) odd += static_cast<int>(draw.At(RandomUnit(1, i)) & 1U);
  EXPECT_GT(odd, 400);
  EXPECT_LT(odd, 600);
}

TEST(BenchDraw, FallsAsThePowerSays) {
  for (const double exponent : {0.5, 1.0, 1.5}) {
    const FeatureDraw draw(1000, exponent);
    std::vector<int> counts(1000);
    for (uint64_t i = 0; i < 1'000'000; ++i) ++counts[draw.At(RandomUnit(3, i))];
    // Sums over stretches, since the distribution is the continuous one.
    std::array<double, 2> seen{};
    const auto count_of_rank = [&](size_t i) { return counts[i * 2'654'435'761 % counts.size()]; };
    for (size_t i = 9; i < 18; ++i) seen[0] += count_of_rank(i);
    for (size_t i = 90; i < 180; ++i) seen[1] += count_of_rank(i);
    EXPECT_NEAR(seen[0] / seen[1], std::pow(10, exponent - 1), 0.15 * std::pow(10, exponent - 1)) << exponent;
  }
}

}  // namespace
}  // namespace widelane::cli
