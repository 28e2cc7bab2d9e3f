// Contexts alone: what is refused, in which words, and which lines there are.

#include "widelane/engine/context_sums.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "backend.h"
#include "harness.h"
#include "plain_memory.h"
#include "widelane/engine/errors.h"
#include "widelane/engine/slab.h"

namespace widelane {
namespace {

using test::CsrArrays;
using test::Row;

constexpr CsrLimits kContextLimits = {.max_rows = 100, .max_entries = 50, .max_row_entries = 10};

void ExpectRefused(const absl::Status& status, const std::string& field, const std::string& words) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(ErrorField(status), field) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
}

// Three rows and two contexts of the model with four features.
class ContextsTest : public ::testing::Test {
 protected:
  RowContexts Contexts() {
    RowContexts contexts{contexts_.view(), TypedArray::Of(ElementType::kU16, of_.data(), of_.size())};
    return contexts;
  }
  absl::Status Check(const RowContexts& contexts) {
    return CheckContexts(contexts, rows_.view(), kContextLimits).status();
  }

  const CsrArrays rows_{{{{0, 3}, {1, -2}}, {}, {{2}, {8}}}, true};
  const CsrArrays contexts_{{{{1}, {4}}, {{0, 2}, {0.5, 0.25}}}, true};
  std::vector<uint16_t> of_ = {0, 1, 1};
};

TEST_F(ContextsTest, AreCounted) {
  const auto shape = CheckContexts(Contexts(), rows_.view(), kContextLimits);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->rows, 2U);
  EXPECT_EQ(shape->entries, 3U);
}

TEST_F(ContextsTest, AreRefusedWithTheirOwnNames) {
  RowContexts contexts = Contexts();
  contexts.features.indices.type = ElementType::kF32;
  ExpectRefused(Check(contexts), "contexts.indices", "f32");
  contexts = Contexts();
  contexts.features.indices.count = 2;
  contexts.features.values->count = 2;
  ExpectRefused(Check(contexts), "contexts.indptr[2]", "outside the 2 indices");
  CsrLimits limits = kContextLimits;
  limits.max_rows = 1;
  const absl::Status many = CheckContexts(Contexts(), rows_.view(), limits).status();
  EXPECT_TRUE(absl::IsResourceExhausted(many)) << many;
  EXPECT_TRUE(absl::StrContains(many.message(), "contexts.rows: 2 rows")) << many;
}

TEST_F(ContextsTest, EachRowHasOneThatThereIs) {
  of_ = {0, 2, 1};
  ExpectRefused(Check(Contexts()), "context_of[1]", "is 2, there are 2 contexts");
  of_ = {0, 1};
  ExpectRefused(Check(Contexts()), "context_of", "there are 2 of them and 3 rows");
  of_ = {0, 1, 1};
  RowContexts contexts = Contexts();
  contexts.of->type = ElementType::kI64;
  ExpectRefused(Check(contexts), "context_of", "i64");
  contexts.of.reset();
  ExpectRefused(Check(contexts), "context_of", "is missing");
  const CsrArrays one({{{1}, {4}}}, true);
  contexts.features = one.view();
  EXPECT_TRUE(Check(contexts).ok());
}

TEST_F(ContextsTest, ARowIsNotTooLongWithItsContext) {
  const CsrArrays rows(std::vector<Row>(3, Row{std::vector<uint32_t>(6, 1), {}}), false);
  const CsrArrays longer({{std::vector<uint32_t>(5, 1), {}}, {std::vector<uint32_t>(4, 1), {}}}, false);
  RowContexts contexts{longer.view(), TypedArray::Of(ElementType::kU16, of_.data(), of_.size())};
  of_ = {1, 1, 1};
  EXPECT_TRUE(CheckContexts(contexts, rows.view(), kContextLimits).ok());
  of_ = {1, 1, 0};
  ExpectRefused(CheckContexts(contexts, rows.view(), kContextLimits).status(), "context_of[2]",
                "row 2 has 6 entries and its context 5, the limit on entries of a row is 10");
  const CsrArrays one({{std::vector<uint32_t>(5, 1), {}}}, false);
  contexts = {one.view(), std::nullopt};
  ExpectRefused(CheckContexts(contexts, rows.view(), kContextLimits).status(), "contexts", "row 0 has 6 entries");
}

TEST_F(ContextsTest, EntriesAreCheckedAsThoseOfRows) {
  const auto model = test::R4();
  ContextSums sums;
  const auto compute = [&](const CsrArrays& arrays, const Model& of) {
    RowContexts contexts = Contexts();
    contexts.features = arrays.view();
    return sums.Compute(of, rows_.view(), contexts, Values::kFloat32, 1000);
  };
  const CsrArrays unknown({{{1}, {4}}, {{0, 4, 9}, {1, 2, 3}}}, true);
  ExpectRefused(compute(unknown, *model), "contexts.indices[2]", "context 1, position 1: feature 4 is outside");
  EXPECT_TRUE(compute(unknown, *test::R4(UnknownFeatures::kIgnore)).ok());
  EXPECT_EQ(sums.ignored(), 2U);
  const CsrArrays infinite({{{1}, {4}}, {{0, 1}, {1, std::numeric_limits<float>::infinity()}}}, true);
  ExpectRefused(compute(infinite, *model), "contexts.values[2]", "context 1, position 1: inf is infinite");
  RowContexts contexts = Contexts();
  contexts.features.features = 5;
  ExpectRefused(sums.Compute(*model, rows_.view(), contexts, Values::kFloat32, 1000), "contexts.features",
                "is 5, the model has 4");
}

TEST_F(ContextsTest, ValuesOfRowsThatHaveNoGridAreRefused) {
  ContextSums sums;
  const CsrArrays rows({{{0}, {1}}, {{1, 2}, {1, std::numeric_limits<float>::quiet_NaN()}}, {}}, true);
  const RowContexts contexts = Contexts();
  ExpectRefused(sums.Compute(*test::R4(), rows.view(), contexts, Values::kFloat32, 1000), "values[2]",
                "row 1, position 1: nan is not a number");
}

TEST_F(ContextsTest, HaveALineForEachGridOfTheirRows) {
  ContextSums sums;
  const auto model = test::R4();
  const RowContexts contexts = Contexts();
  ASSERT_TRUE(sums.Compute(*model, rows_.view(), contexts, Values::kFloat32, 1000).ok());
  // Context 0 with a largest value of 4 beside a row's 2; context 1 with 0.5 beside nothing and beside 8.
  EXPECT_EQ(sums.lines(), 3U);
  EXPECT_EQ(sums.sums().size(), 3U);
  EXPECT_EQ(sums.LineOf(0, 2).line, 0U);
  EXPECT_EQ(sums.LineOf(0, 2).max, 4);
  EXPECT_EQ(sums.LineOf(1, 0).line, 1U);
  EXPECT_EQ(sums.LineOf(1, 0).max, 0.5F);
  EXPECT_EQ(sums.LineOf(1, 8).line, 2U);
  EXPECT_EQ(sums.LineOf(1, 8).max, 8);
  EXPECT_EQ(sums.sums()[1], sums.sums()[2] * 16) << "the same number in other steps";
}

TEST_F(ContextsTest, HaveOneLineEachWithoutValues) {
  ContextSums sums;
  const CsrArrays ones({{{1}, {}}, {{0, 2}, {}}}, false);
  RowContexts contexts = Contexts();
  contexts.features = ones.view();
  ASSERT_TRUE(sums.Compute(*test::R4(), rows_.view(), contexts, Values::kOnes, 1000).ok());
  EXPECT_EQ(sums.lines(), 2U);
  EXPECT_EQ(sums.LineOf(1, 1).line, 1U);
}

TEST_F(ContextsTest, AreRefusedWhereABatchHoldsFewerLines) {
  ContextSums sums;
  const RowContexts contexts = Contexts();
  EXPECT_TRUE(sums.Compute(*test::R4(), rows_.view(), contexts, Values::kFloat32, 3).ok());
  const absl::Status status = sums.Compute(*test::R4(), rows_.view(), contexts, Values::kFloat32, 2);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "more than 2 sums")) << status;
}

TEST_F(ContextsTest, RefusesMoreThanTheirCallerCanSumInAMoment) {
  std::vector<uint16_t> lengths(ContextSums::kMaxLines + 1, 0);
  RowContexts contexts = Contexts();
  contexts.features.indptr.reset();
  contexts.features.indices = TypedArray::Of(ElementType::kU16, lengths.data(), 0);
  contexts.features.values.reset();
  contexts.features.row_lengths = TypedArray::Of(ElementType::kU16, lengths.data(), lengths.size());
  ContextSums sums;
  const absl::Status many = sums.Compute(*test::R4(), rows_.view(), contexts, Values::kOnes, 1 << 20);
  EXPECT_TRUE(absl::IsResourceExhausted(many) && absl::StrContains(many.message(), "65537 contexts")) << many;

  const std::vector<uint16_t> indices(ContextSums::kMostTerms + 1, 0);
  const std::vector<uint32_t> large = {static_cast<uint32_t>(ContextSums::kMostTerms / 2),
                                       static_cast<uint32_t>(ContextSums::kMostTerms / 2) + 1};
  contexts.features.indices = TypedArray::Of(ElementType::kU16, indices.data(), indices.size());
  contexts.features.row_lengths = TypedArray::Of(ElementType::kU32, large.data(), large.size());
  const absl::Status long_ones = sums.Compute(*test::R4(), rows_.view(), contexts, Values::kOnes, 1 << 20);
  EXPECT_TRUE(absl::IsResourceExhausted(long_ones)) << long_ones;
  EXPECT_TRUE(absl::StrContains(long_ones.message(), "16777216 terms")) << long_ones;
}

TEST_F(ContextsTest, ReachTheBatchWithTheirRows) {
  test::PlainMemory memory;
  const auto slab = *Slab::Create({.rows = 10, .entries = 20, .results = 20, .context_sums = 7}, memory);
  slab->Open(std::make_shared<LoadedModel>(test::R4(), std::vector<std::unique_ptr<ResidentModel>>(), false),
             {.values = Values::kFloat32, .contexts = true});
  ContextSums sums;
  const RowContexts contexts = Contexts();
  ASSERT_TRUE(sums.Compute(*test::R4(), rows_.view(), contexts, Values::kFloat32, 7).ok());
  slab->Void(*slab->Claim(1, 2, kWantScores, 2));
  EXPECT_EQ(slab->RoomForLines(), 5U);
  const auto segment = slab->Claim(3, 3, kWantScores, sums.lines());
  ASSERT_TRUE(segment.has_value());
  EXPECT_FALSE(slab->Claim(1, 1, kWantScores, 3).has_value()) << "there is room for two lines";
  const CsrView view = rows_.view();
  RowCursor cursor(view);
  ASSERT_TRUE(PackRows(view, cursor, *slab, *segment, &sums).ok());
  slab->Seal();
  const BatchView& batch = slab->view();
  EXPECT_EQ(batch.context_lines, 5U);
  EXPECT_EQ(std::vector<int64_t>(batch.context_sums + 2, batch.context_sums + 5),
            std::vector<int64_t>(sums.sums().begin(), sums.sums().end()));
  EXPECT_EQ(std::vector<uint16_t>(batch.context_line, batch.context_line + 4), (std::vector<uint16_t>{0, 2, 3, 4}));
  EXPECT_EQ(std::vector<float>(batch.row_max, batch.row_max + 4), (std::vector<float>{0, 4, 0.5, 8}));
}

}  // namespace
}  // namespace widelane
