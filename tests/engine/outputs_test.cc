#include "widelane/engine/outputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/match.h"
#include "harness.h"

namespace widelane {
namespace {

std::shared_ptr<const Model> ModelOf(uint32_t outputs, Link link, Tie tie = Tie::kNegative) {
  ModelParts parts;
  parts.features = 1;
  parts.outputs = outputs;
  parts.weights = *ModelParts::AllocateWeights(1, outputs, WeightType::kFloat32);
  std::fill_n(reinterpret_cast<float*>(parts.weights.data()), outputs, 1.0F);
  parts.link = link;
  parts.tie = tie;
  for (uint32_t k = 0; k < std::max(outputs, 2U); ++k) parts.labels.push_back(std::to_string(k));
  parts.source = "a test";
  return *Model::Create(std::move(parts));
}

std::vector<float> ProbabilitiesOf(const Model& model, const std::vector<double>& raw) {
  std::vector<float> out(ProbabilityCount(model));
  Probabilities(model, raw.data(), out.data());
  return out;
}

uint32_t Label(const Model& model, const std::vector<double>& raw) { return LabelOf(model, raw.data()); }

TEST(LabelOf, FollowsSignAndTieRuleWithOneOutput) {
  const auto negative = ModelOf(1, Link::kSigmoid);
  const auto positive = ModelOf(1, Link::kSigmoid, Tie::kPositive);
  for (const auto& model : {negative, positive}) {
    EXPECT_EQ(Label(*model, {5e-324}), 1U);
    EXPECT_EQ(Label(*model, {-5e-324}), 0U);
  }
  for (const double zero : {0.0, -0.0}) {
    EXPECT_EQ(Label(*negative, {zero}), 0U);
    EXPECT_EQ(Label(*positive, {zero}), 1U);
  }
}

TEST(LabelOf, TakesTheLowestOfTheLargest) {
  const auto model = ModelOf(3, Link::kSoftmax);
  EXPECT_EQ(Label(*model, {-1, 2, 2}), 1U);
  EXPECT_EQ(Label(*model, {0, 0, 0}), 0U);
  EXPECT_EQ(Label(*model, {0.0, -0.0, 0.0}), 0U);
  EXPECT_EQ(Label(*model, {-0.0, 0.0, 0.0}), 0U);
  EXPECT_EQ(Label(*model, {-3, -2, -1}), 2U);
}

TEST(Probabilities, OfOneSigmoidAreTwoThatEachKeepTheirSmallEnd) {
  const auto model = ModelOf(1, Link::kSigmoid);
  EXPECT_EQ(ProbabilityCount(*model), 2U);
  const auto even = ProbabilitiesOf(*model, {0.0});
  EXPECT_EQ(even, (std::vector<float>{0.5F, 0.5F}));
  const auto sure = ProbabilitiesOf(*model, {50.0});
  EXPECT_EQ(sure[1], 1.0F);
  EXPECT_NEAR(sure[0], 1.9287498e-22F, 1e-28F);  // not 1 - 1
}

TEST(Probabilities, OfSeveralOutputsFollowTheLink) {
  const auto softmax = ProbabilitiesOf(*ModelOf(3, Link::kSoftmax), {1.0, 0.5, -2.0});
  EXPECT_NEAR(softmax[0], 0.603749, 1e-6);
  EXPECT_NEAR(softmax[1], 0.366192, 1e-6);
  EXPECT_NEAR(softmax[2], 0.030059, 1e-6);
  const auto rest = ProbabilitiesOf(*ModelOf(3, Link::kOneVsRest), {1.0, 0.5, -2.0});
  EXPECT_NEAR(rest[0], 0.496400, 1e-6);
  EXPECT_NEAR(rest[1], 0.422659, 1e-6);
  EXPECT_NEAR(rest[2], 0.080941, 1e-6);
  const auto labels = ProbabilitiesOf(*ModelOf(2, Link::kSigmoid), {0.0, 100.0});
  EXPECT_EQ(labels, (std::vector<float>{0.5F, 1.0F}));
}

TEST(CheckHasProbabilities, RefusesOtherLinksByName) {
  for (const Link link : {Link::kSigmoid, Link::kSoftmax, Link::kOneVsRest}) {
    EXPECT_TRUE(CheckHasProbabilities(*ModelOf(2, link)).ok());
  }
  for (const Link link : {Link::kIdentity, Link::kExp}) {
    const absl::Status status = CheckHasProbabilities(*ModelOf(2, link));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(absl::StrContains(status.message(), LinkName(link))) << status;
  }
}

TEST(TopK, IsAPrefixOfTheStableOrder) {
  test::Random random(7);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    std::vector<double> raw(static_cast<size_t>(test::Between(random, 1, 60)));
    for (double& r : raw) r = static_cast<double>(test::Between(random, -5, 5));  // many ties
    std::vector<uint32_t> order(raw.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return raw[a] > raw[b]; });
    const auto k = static_cast<uint32_t>(test::Between(random, 0, static_cast<int64_t>(raw.size())));
    std::vector<uint32_t> scratch(raw.size());
    std::vector<uint32_t> best(k);
    TopK(raw.data(), static_cast<uint32_t>(raw.size()), k, scratch.data(), best.data());
    order.resize(k);
    ASSERT_EQ(best, order);
  }
}

TEST(TopK, TreatsBothZerosAsEqual) {
  const double raw[] = {-0.0, 0.0, -1.0};
  uint32_t scratch[3];
  uint32_t best[2];
  TopK(raw, 3, 2, scratch, best);
  EXPECT_EQ(best[0], 0U);
  EXPECT_EQ(best[1], 1U);
}

}  // namespace
}  // namespace widelane
