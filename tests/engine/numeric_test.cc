#include "numeric.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include "harness.h"
#include "tests/support/reference.h"

namespace widelane {
namespace {

using test::Between;
using test::kShrink;
using test::Random;

// |got - right| in units of the last place of `right`.
long double UlpsOff(double got, long double right) {
  const double nearest = static_cast<double>(right);
  if (std::isinf(nearest)) return got == nearest || got == DBL_MAX ? 0 : HUGE_VALL;
  const double magnitude = std::fabs(nearest);
  const double ulp = std::nextafter(magnitude, HUGE_VAL) - magnitude;
  return std::fabs(static_cast<long double>(got) - right) / static_cast<long double>(ulp);
}

double Uniform(Random& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

TEST(Exp, IsWithinTwoUlp) {
  Random random(1);
  long double worst = 0;
  for (int i = 0; i < 2'000'000 / kShrink; ++i) {
    const double x = i % 2 == 0 ? Uniform(random, -745.2, 709.8) : Uniform(random, -2, 2);
    const long double off = UlpsOff(numeric::Exp(x), std::exp(static_cast<long double>(x)));
    ASSERT_LE(off, 2.0L) << "at " << std::hexfloat << x;
    worst = std::max(worst, off);
  }
  RecordProperty("worst_ulps_times_1000", static_cast<int>(worst * 1000));
}

TEST(Exp, IsExactAtZeroAndOrderlyAtTheEnds) {
  EXPECT_EQ(numeric::Exp(0.0), 1.0);
  EXPECT_EQ(numeric::Exp(-0.0), 1.0);
  EXPECT_EQ(numeric::Exp(-1e308), 0.0);
  EXPECT_EQ(numeric::Exp(-HUGE_VAL), 0.0);
  EXPECT_EQ(numeric::Exp(1e308), HUGE_VAL);
  EXPECT_EQ(numeric::Exp(711.0), HUGE_VAL);
  EXPECT_TRUE(std::isfinite(numeric::Exp(709.78)));
  EXPECT_EQ(numeric::Exp(-745.0), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(numeric::Exp(-745.2), 0.0);
  EXPECT_EQ(numeric::Exp(5e-324), 1.0);
}

TEST(Exp, NeverFallsOverManyNeighbours) {
  for (double from : {-745.0, -100.0, -0.35, 0.34, 1.0, 700.0}) {
    double previous = 0;
    for (int i = 0; i < 1000; ++i, from += 1e-3) {
      ASSERT_GE(numeric::Exp(from), previous) << "at " << from;
      previous = numeric::Exp(from);
    }
  }
}

TEST(Sigmoid, IsWithinAFewUlpAndInRange) {
  Random random(2);
  for (int i = 0; i < 500'000 / kShrink; ++i) {
    const double x = i % 2 == 0 ? Uniform(random, -740, 740) : Uniform(random, -4, 4);
    const long double right = 1.0L / (1.0L + std::exp(-static_cast<long double>(x)));
    ASSERT_LE(UlpsOff(numeric::Sigmoid(x), right), 4.0L) << "at " << std::hexfloat << x;
  }
  EXPECT_EQ(numeric::Sigmoid(0.0), 0.5);
  EXPECT_EQ(numeric::Sigmoid(-0.0), 0.5);
  for (const double x : {1e3, 1e30, 1e308, DBL_MAX}) {
    EXPECT_EQ(numeric::Sigmoid(x), 1.0);
    EXPECT_EQ(numeric::Sigmoid(-x), 0.0);
  }
}

TEST(Grid, IsTheLeastPowerOfTwoAboveTheLargestProduct) {
  Random random(3);
  for (int i = 0; i < 100'000 / kShrink; ++i) {
    const double weight = std::fabs(test::Wild(random, -44, 38));
    const float value = std::fabs(test::Wild(random, -44, 38));
    const double bound = weight * static_cast<double>(value);
    if (bound == 0) continue;
    const numeric::Grid grid = numeric::GridFor(weight, value);
    ASSERT_EQ(grid.step * grid.inverse_step, 1.0);
    ASSERT_LT(bound, std::ldexp(grid.step, 38));
    ASSERT_GE(bound, std::ldexp(grid.step, 37));
  }
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(numeric::GridFor(tiny, tiny).step, std::ldexp(1.0, -298 + 1 - 38));
  EXPECT_EQ(numeric::GridFor(FLT_MAX, FLT_MAX).step, std::ldexp(1.0, 256 - 38));
  EXPECT_EQ(numeric::GridFor(1.0, 1.0F).step, std::ldexp(1.0, 1 - 38));
  EXPECT_EQ(numeric::GridFor(0.0, 5.0F).step, std::ldexp(1.0, -38));
  EXPECT_EQ(numeric::GridFor(5.0, 0.0F).step, std::ldexp(1.0, -38));
}

TEST(Term, RoundsTheExactProductToNearestTiesToEven) {
  Random random(4);
  for (int i = 0; i < 500'000 / kShrink; ++i) {
    const double low = i % 3 == 0 ? -44 : -6;
    const double high = i % 3 == 0 ? 38 : 0;
    const float weight = test::Wild(random, low, high);
    const float value = test::Wild(random, low, high);
    // The grid of a row in which these are the largest, or are far below it.
    const auto grid = numeric::GridFor(std::fabs(weight) * (i % 5 + 1), std::fabs(value));
    const int exponent = std::ilogb(grid.step);
    const double product = static_cast<double>(weight) * static_cast<double>(value);
    const auto expected = static_cast<int64_t>(std::nearbyint(std::ldexp(product, -exponent)));
    ASSERT_EQ(numeric::Term(weight, static_cast<double>(value) * grid.inverse_step), expected)
        << std::hexfloat << weight << " * " << value;
    ASSERT_LE(std::abs(expected), int64_t{1} << 38);
  }
}

TEST(Term, TiesGoToTheEvenStep) {
  for (const auto& [steps, rounded] : std::vector<std::pair<double, int64_t>>{
           {0.5, 0}, {1.5, 2}, {2.5, 2}, {-0.5, 0}, {-1.5, -2}, {-2.5, -2}, {0.75, 1}, {0x1p38, int64_t{1} << 38}}) {
    EXPECT_EQ(numeric::Term(1.0, steps), rounded) << steps;
    EXPECT_EQ(numeric::Term(-1.0, steps), -rounded) << steps;
  }
}

TEST(RawSum, RoundsTheSumOnceAndTheRestOnce) {
  const int64_t odd = (int64_t{1} << 53) + 1;
  EXPECT_EQ(numeric::RawSum(odd, 1.0, 1.0, 0.0), 0x1p53);
  EXPECT_EQ(numeric::RawSum(3, 0x1p-38, 0.1F, -0.75), std::fma(3.0, std::ldexp(0.1F, -38), -0.75));
  EXPECT_EQ(numeric::RawSum(0, 1.0, 1.0, 0.25), 0.25);
}

TEST(Halves, AllConvertExactly) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float float16 = numeric::FromFloat16(half);
    const float bfloat16 = numeric::FromBfloat16(half);
    const double right16 = test::DecodeFloat16(half);
    const double right_b = test::DecodeBfloat16(half);
    ASSERT_TRUE(std::isnan(right16) ? std::isnan(float16) : float16 == static_cast<float>(right16)) << bits;
    ASSERT_TRUE(std::isnan(right_b) ? std::isnan(bfloat16) : bfloat16 == static_cast<float>(right_b)) << bits;
    ASSERT_EQ(std::signbit(float16), (bits & 0x8000) != 0) << bits;
    ASSERT_EQ(std::signbit(bfloat16), (bits & 0x8000) != 0) << bits;
  }
}

// Shares of `raw` under `link`, as every backend makes them.
std::vector<double> Normalise(Link link, const std::vector<double>& raw) {
  const double max = *std::max_element(raw.begin(), raw.end());
  int64_t sum = 0;
  for (const double r : raw) sum += numeric::ShareSteps(numeric::Share(link, r, max));
  std::vector<double> shares;
  for (const double r : raw) shares.push_back(numeric::Normalised(numeric::Share(link, r, max), sum));
  return shares;
}

void ExpectNear(const std::vector<double>& expected, const std::vector<double>& actual, double tolerance) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t k = 0; k < expected.size(); ++k) EXPECT_NEAR(expected[k], actual[k], tolerance) << "output " << k;
}

TEST(Links, SoftmaxAndOneVsRestDiffer) {
  ExpectNear({0.603749, 0.366192, 0.030059}, Normalise(Link::kSoftmax, {1.0, 0.5, -2.0}), 1e-6);
  ExpectNear({0.496400, 0.422659, 0.080941}, Normalise(Link::kOneVsRest, {1.0, 0.5, -2.0}), 1e-6);
}

TEST(Links, LiblinearsThreeClasses) {
  ExpectNear({0.173269, 0.460687, 0.366044}, Normalise(Link::kOneVsRest, {-0.9, 1.2, 0.45}), 1e-6);
  ExpectNear({0.076784, 0.627029, 0.296187}, Normalise(Link::kSoftmax, {-0.9, 1.2, 0.45}), 1e-6);
}

TEST(Links, SoftmaxOverTwoIsTheSigmoidOfTheDifference) {
  ExpectNear({1 - 0.832018, 0.832018}, Normalise(Link::kSoftmax, {-0.8, 0.8}), 1e-6);
  ExpectNear({1 - 0.069138, 0.069138}, Normalise(Link::kSoftmax, {1.3, -1.3}), 1e-6);
}

TEST(Links, SharesStayFiniteAndAddUpAtTheExtremes) {
  const std::vector<std::vector<double>> rows = {
      {1e3, 1e3},         {-1e3, -1e3},       {-1e3, -1001},        {1e30, -1e30},    {DBL_MAX, -DBL_MAX},
      {-DBL_MAX, -1e300}, {-745, -746, -750}, {1e-300, -1e-300, 0}, {710, 709, -710}, {-800, -800, -800, -801},
      {0, -1e4, 1e4},     {-5e-324, 5e-324}};
  for (const Link link : {Link::kSoftmax, Link::kOneVsRest}) {
    for (const auto& raw : rows) {
      double sum = 0;
      for (const double share : Normalise(link, raw)) {
        ASSERT_TRUE(std::isfinite(share)) << LinkName(link) << " of " << raw[0];
        ASSERT_GE(share, 0.0);
        ASSERT_LE(share, 1.0);
        sum += share;
      }
      EXPECT_NEAR(sum, 1.0, 1e-9) << LinkName(link) << " of " << raw[0];
    }
  }
}

TEST(Links, OneVsRestKeepsItsMeaningWhereSigmoidsUnderflow) {
  // sigmoid(x) is exp(x) far below zero, so the ratio is that of the exponentials.
  ExpectNear({1 / (1 + std::exp(-1.0)), 1 / (1 + std::exp(1.0))}, Normalise(Link::kOneVsRest, {-2000, -2001}), 1e-9);
}

TEST(Links, PointwiseOnesFollowTheirNames) {
  EXPECT_EQ(numeric::PointwiseLink(Link::kIdentity, -3.5), -3.5);
  EXPECT_EQ(numeric::PointwiseLink(Link::kSigmoid, 1.25), numeric::Sigmoid(1.25));
  EXPECT_EQ(numeric::PointwiseLink(Link::kExp, 1.25), numeric::Exp(1.25));
  for (const Link link : {Link::kIdentity, Link::kSigmoid, Link::kExp}) EXPECT_TRUE(numeric::IsPointwise(link));
  for (const Link link : {Link::kSoftmax, Link::kOneVsRest}) EXPECT_FALSE(numeric::IsPointwise(link));
}

// A float of the given largest magnitude, from far below to the largest itself.
float UpTo(float largest, Random& random) {
  const int64_t kind = Between(random, 0, 3);
  float magnitude = 0;
  if (kind == 0) magnitude = largest;
  if (kind == 1) magnitude = std::ldexp(largest, -static_cast<int>(Between(random, 0, 45)));
  if (kind == 2) magnitude = largest * (static_cast<float>(Between(random, 0, 4096)) / 4096.0F);
  if (kind == 3) magnitude = largest * static_cast<float>(Uniform(random, 0, 1));
  return Between(random, 0, 1) == 0 ? -magnitude : magnitude;
}

TEST(SplitTerms, AddUpToTheSameIntegersAsDoubles) {
  Random random(23);
  for (int i = 0; i < 300'000 / kShrink; ++i) {
    const auto max_weight =
        static_cast<float>(std::ldexp(Uniform(random, 1, 2), static_cast<int>(Between(random, -60, 59))));
    // Any float from the least subnormal to the largest.
    const float max_value =
        i % 4 == 0 ? 1.0F : numeric::FloatFromBits(static_cast<uint32_t>(Between(random, 1, 0x7F7FFFFF)));
    ASSERT_TRUE(numeric::MaySplit(max_weight));
    const numeric::Grid grid = numeric::GridFor(max_weight, max_value);
    const numeric::SplitScale scale = numeric::SplitScaleFor(grid);
    const uint32_t terms = i % 100 == 0 ? numeric::kMaxSplitTerms : static_cast<uint32_t>(Between(random, 1, 4));
    int64_t expected = 0;
    numeric::SplitSums sums;
    for (uint32_t t = 0; t < terms; ++t) {
      const float weight = UpTo(max_weight, random);
      const float value = UpTo(max_value, random);
      expected += numeric::Term(weight, static_cast<double>(value) * grid.inverse_step);
      numeric::AddSplitTerm(weight, numeric::SplitValue(value, scale), sums);
    }
    ASSERT_EQ(numeric::SplitSum(sums, terms), expected) << "weights up to " << std::hexfloat << max_weight
                                                        << ", values up to " << max_value << ", " << terms << " terms";
  }
}

TEST(SplitTerms, MayBeAsManyAsPromisedAndAllTheLargest) {
  // Terms whose low part is the largest there is, 2^22: half a step of the high part.
  const float weight = 1.0F - 0x1p-16F;
  const numeric::Grid grid = numeric::GridFor(weight, 1.0F);
  const numeric::SplitScale scale = numeric::SplitScaleFor(grid);
  for (const float sign : {1.0F, -1.0F}) {
    numeric::SplitSums sums;
    int64_t expected = 0;
    for (uint32_t t = 0; t < numeric::kMaxSplitTerms; ++t) {
      numeric::AddSplitTerm(sign * weight, numeric::SplitValue(1.0F, scale), sums);
      expected += numeric::Term(sign * weight, grid.inverse_step);
    }
    EXPECT_EQ(numeric::SplitSum(sums, numeric::kMaxSplitTerms), expected);
  }
}

TEST(SplitTerms, AreNotForWeightsBeyondTheirRange) {
  EXPECT_TRUE(numeric::MaySplit(0));
  EXPECT_TRUE(numeric::MaySplit(0x1p-60));
  EXPECT_TRUE(numeric::MaySplit(0x1p60));
  EXPECT_FALSE(numeric::MaySplit(0x1.fp-61));
  EXPECT_FALSE(numeric::MaySplit(0x1.1p60));
  EXPECT_EQ(numeric::FloatBitsOf(numeric::kHighRounder), numeric::kHighRounderBits);
  EXPECT_EQ(numeric::FloatBitsOf(numeric::kLowRounder), numeric::kLowRounderBits);
}

}  // namespace
}  // namespace widelane
