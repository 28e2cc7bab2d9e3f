#include "widelane/engine/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/match.h"
#include "harness.h"

namespace widelane {
namespace {

// Two features, three outputs, all weights 1.
ModelParts Parts(WeightType type = WeightType::kFloat32) {
  ModelParts parts;
  parts.features = 2;
  parts.outputs = 3;
  parts.weight_type = type;
  parts.weights = *ModelParts::AllocateWeights(2, 3, type);
  std::memset(parts.weights.data(), 0, parts.weights.size());
  if (type == WeightType::kInt8) parts.scale = {1, 2, 3};
  return parts;
}

template <typename T>
void Set(ModelParts& parts, size_t element, T value) {
  std::memcpy(parts.weights.data() + element * sizeof(T), &value, sizeof(T));
}

void ExpectRefused(ModelParts parts, const std::string& words) {
  const auto model = Model::Create(std::move(parts));
  ASSERT_FALSE(model.ok()) << words;
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(model.status().message(), words)) << model.status();
}

TEST(Model, FillsInWhatIsLeftOut) {
  const auto model = Model::Create(Parts());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->bias(), std::vector<double>(3, 0.0));
  EXPECT_EQ((*model)->scale(), std::vector<double>(3, 1.0));
  EXPECT_EQ((*model)->zero_feature(), 2U);
  EXPECT_EQ((*model)->max_weight(), 0.0);
}

TEST(Model, ZeroesTheZeroFeatureAndLeavesItOutOfTheMaximum) {
  ModelParts parts = Parts();
  for (size_t i = 0; i < 6; ++i) Set(parts, i, -0.5F);
  for (size_t i = 6; i < 9; ++i) Set(parts, i, std::numeric_limits<float>::quiet_NaN());
  const auto model = *Model::Create(std::move(parts));
  EXPECT_EQ(model->max_weight(), 0.5);
  for (uint32_t k = 0; k < 3; ++k) EXPECT_EQ(test::WeightOf(*model, 2, k), 0.0);
}

TEST(Model, FindsTheLargestWeightOfEveryType) {
  ModelParts f16 = Parts(WeightType::kFloat16);
  Set<uint16_t>(f16, 5, 0xFBFF);
  EXPECT_EQ((*Model::Create(std::move(f16)))->max_weight(), 65504.0);
  ModelParts bf16 = Parts(WeightType::kBfloat16);
  Set<uint16_t>(bf16, 0, 0x0001);
  EXPECT_EQ((*Model::Create(std::move(bf16)))->max_weight(), std::ldexp(1.0, -133));
  ModelParts int8 = Parts(WeightType::kInt8);
  Set<int8_t>(int8, 3, -128);
  const auto model = *Model::Create(std::move(int8));
  EXPECT_EQ(model->max_weight(), 128.0) << "of the stored numbers, before the scale";
  EXPECT_EQ(model->scale(), (std::vector<double>{1, 2, 3}));
  ModelParts f32 = Parts();
  Set(f32, 4, -std::numeric_limits<float>::denorm_min());
  EXPECT_EQ((*Model::Create(std::move(f32)))->max_weight(), std::ldexp(1.0, -149));
}

TEST(Model, RefusesWeightsThatAreNotFiniteNamingThem) {
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    ModelParts parts = Parts();
    Set(parts, 4, bad);
    ExpectRefused(std::move(parts), "feature 1, output 1");
  }
  for (const uint16_t bad : {0x7C00, 0xFC00, 0x7C01, 0xFFFF}) {
    ModelParts parts = Parts(WeightType::kFloat16);
    Set(parts, 2, bad);
    ExpectRefused(std::move(parts), "feature 0, output 2");
  }
  for (const uint16_t bad : {0x7F80, 0xFF80, 0x7F81, 0xFFFF}) {
    ModelParts parts = Parts(WeightType::kBfloat16);
    Set(parts, 5, bad);
    ExpectRefused(std::move(parts), "feature 1, output 2");
  }
}

TEST(Model, FindsABadWeightBehindManyGoodOnes) {
  ModelParts parts;
  parts.features = 20000;
  parts.weights = *ModelParts::AllocateWeights(20000, 1, WeightType::kFloat32);
  std::memset(parts.weights.data(), 0, parts.weights.size());
  Set(parts, 19999, std::nanf(""));
  ExpectRefused(std::move(parts), "feature 19999, output 0");
}

TEST(Model, RefusesBiasAndScaleThatDoNotFit) {
  ModelParts parts = Parts();
  parts.bias = {1, 2};
  ExpectRefused(std::move(parts), "bias: has 2 numbers for 3 outputs");
  parts = Parts();
  parts.bias = {1, 2, HUGE_VAL};
  ExpectRefused(std::move(parts), "bias[2]");
  parts = Parts();
  parts.scale = {1, 1, 1};
  ExpectRefused(std::move(parts), "scale");
  parts = Parts(WeightType::kInt8);
  parts.scale.clear();
  ExpectRefused(std::move(parts), "scale");
  parts = Parts(WeightType::kInt8);
  parts.scale[1] = std::nanf("");
  ExpectRefused(std::move(parts), "scale[1]");
}

TEST(Model, RefusesLabelsThatDoNotFit) {
  ModelParts parts = Parts();
  parts.labels = {"a", "b"};
  ExpectRefused(std::move(parts), "labels: there are 2");
  const std::vector<float> weights = {1.0F};
  ModelParts one;
  one.features = 1;
  one.weights = *ModelParts::AllocateWeights(1, 1, WeightType::kFloat32);
  std::memcpy(one.weights.data(), weights.data(), 4);
  one.labels = {"only"};
  ExpectRefused(std::move(one), "labels: there are 1");
}

TEST(Model, RefusesNormalisingLinksWithOneOutput) {
  for (const Link link : {Link::kSoftmax, Link::kOneVsRest}) {
    ModelParts parts;
    parts.features = 1;
    parts.weights = *ModelParts::AllocateWeights(1, 1, WeightType::kFloat32);
    Set(parts, 0, 1.0F);
    parts.link = link;
    ExpectRefused(std::move(parts), LinkName(link));
  }
}

TEST(Model, RefusesWeightsOfAnotherSize) {
  ModelParts parts = Parts();
  parts.features = 3;
  ExpectRefused(std::move(parts), "36 bytes");
}

TEST(Model, TakesNoFeaturesAtAll) {
  ModelParts parts;
  parts.weights = *ModelParts::AllocateWeights(0, 1, WeightType::kFloat32);
  parts.bias = {0.5};
  const auto model = Model::Create(std::move(parts));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->zero_feature(), 0U);
}

TEST(Model, KnowsWhenIndicesAreNarrow) {
  test::Random random(1);
  EXPECT_TRUE(test::RandomModel({.features = 65535}, random)->narrow_indices());
  EXPECT_FALSE(test::RandomModel({.features = 65536}, random)->narrow_indices());
}

TEST(AllocateWeights, RefusesSizesPastTheLimits) {
  EXPECT_EQ(ModelParts::AllocateWeights(uint64_t{1} << 32, 1, WeightType::kInt8).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ModelParts::AllocateWeights(1, 0, WeightType::kInt8).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ModelParts::AllocateWeights(1, uint64_t{1} << 24, WeightType::kInt8).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ModelParts::AllocateWeights(~uint64_t{0}, ~uint64_t{0}, WeightType::kFloat32).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Names, AreThoseOfTheFiles) {
  EXPECT_STREQ(WeightTypeName(WeightType::kBfloat16), "bfloat16");
  EXPECT_STREQ(LinkName(Link::kOneVsRest), "one_vs_rest");
  EXPECT_EQ(WeightSize(WeightType::kFloat16), 2U);
}

}  // namespace
}  // namespace widelane
