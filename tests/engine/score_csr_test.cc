// Arrays of any size in one call, and the cutting of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "cut_csr.h"
#include "harness.h"
#include "tests/support/reference.h"
#include "widelane/engine/engine.h"

namespace widelane {
namespace {

using test::Row;

EngineOptions SmallSlabs() {
  EngineOptions options;
  options.devices.kind = DeviceSelection::Kind::kCpu;
  options.slab = {.rows = 500, .entries = 3000, .results = 2000};
  options.slabs = 3;
  options.cpu_threads = 3;
  options.measure_costs = false;
  return options;
}

class ScoreCsrTest : public ::testing::TestWithParam<Route> {
 protected:
  void SetUp() override {
    EngineOptions options = SmallSlabs();
    options.route = GetParam();
    engine_ = *Engine::Create(options);
  }

  std::unique_ptr<Engine> engine_;
};

INSTANTIATE_TEST_SUITE_P(Routes, ScoreCsrTest, ::testing::Values(Route::kAuto, Route::kInline, Route::kPool),
                         [](const auto& of) { return kRouteNames[static_cast<size_t>(of.param)]; });

TEST_P(ScoreCsrTest, GivesTheBitsOfOneBatch) {
  test::Random random(3);
  for (const uint32_t outputs : {1U, 7U}) {
    const auto model = *engine_->Load(test::RandomModel({.features = 200, .outputs = outputs}, random));
    for (const size_t count : {size_t{0}, size_t{1}, size_t{499}, size_t{5000}}) {
      for (const bool has_values : {false, true}) {
        const auto rows = test::RandomRows(count, {.features = 200, .has_values = has_values}, random);
        const test::CsrArrays arrays(rows, has_values);
        std::vector<float> scores(count * outputs);
        std::vector<double> raw(count * outputs);
        const auto report = engine_->ScoreCsr(model, arrays.view(), {.scores = scores.data(), .raw = raw.data()});
        ASSERT_TRUE(report.ok()) << report.status();
        EXPECT_GE(report->batches, count / 500);
        std::vector<test::RowScore> got(count);
        for (size_t r = 0; r < count; ++r) {
          got[r].scores.assign(&scores[r * outputs], &scores[r * outputs] + outputs);
          got[r].raw.assign(&raw[r * outputs], &raw[r * outputs] + outputs);
        }
        test::ExpectSameBits(test::ReferenceScores(model->model(), rows), got);
      }
    }
  }
}

TEST_P(ScoreCsrTest, TakesRowLengthsAndGivesTheBest) {
  test::Random random(4);
  constexpr uint32_t kOutputs = 50;
  constexpr uint32_t kBest = 4;
  const auto model =
      *engine_->Load(test::RandomModel({.features = 80, .outputs = kOutputs, .link = Link::kSoftmax}, random));
  const auto rows = test::RandomRows(1300, {.features = 80, .has_values = false}, random);
  const test::CsrArrays arrays(rows, false);
  CsrView view = arrays.view();
  std::vector<uint32_t> lengths;
  for (const Row& row : rows) lengths.push_back(static_cast<uint32_t>(row.features.size()));
  view.indptr.reset();
  view.row_lengths = TypedArray::Of(ElementType::kU32, lengths.data(), lengths.size());
  std::vector<uint32_t> outputs(rows.size() * kBest);
  std::vector<float> scores(rows.size() * kBest);
  const auto report =
      engine_->ScoreCsr(model, view, {.best = kBest, .best_outputs = outputs.data(), .best_scores = scores.data()});
  ASSERT_TRUE(report.ok()) << report.status();
  const auto expected = test::ReferenceScores(model->model(), rows);
  for (size_t r = 0; r < rows.size(); ++r) {
    std::vector<uint32_t> order(kOutputs);
    for (uint32_t k = 0; k < kOutputs; ++k) order[k] = k;
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return expected[r].raw[a] > expected[r].raw[b]; });
    for (uint32_t k = 0; k < kBest; ++k) {
      ASSERT_EQ(outputs[r * kBest + k], order[k]) << "row " << r << " place " << k;
      ASSERT_EQ(scores[r * kBest + k], expected[r].scores[order[k]]) << "row " << r << " place " << k;
    }
  }
}

TEST_P(ScoreCsrTest, NamesTheFirstBadRow) {
  const auto model = *engine_->Load(test::R4());
  std::vector<Row> rows(2000, Row{{2}, {3.0F}});
  rows[1500].features[0] = 4;
  rows[1207].features[0] = 9;
  const test::CsrArrays arrays(rows, true);
  std::vector<float> scores(rows.size());
  const auto report = engine_->ScoreCsr(model, arrays.view(), {.scores = scores.data()});
  EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(report.status().message(), "row 1207, position 0")) << report.status();
  EXPECT_TRUE(engine_->ScoreCsr(model, test::CsrArrays({}, true).view(), {}).ok()) << "all slabs are back";
}

TEST_P(ScoreCsrTest, RefusesARowLongerThanASlabAndTooManyBest) {
  const auto model = *engine_->Load(test::R4());
  const test::CsrArrays arrays({Row{std::vector<uint32_t>(3001, 1), {}}}, false);
  float score = 0;
  EXPECT_EQ(engine_->ScoreCsr(model, arrays.view(), {.scores = &score}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(engine_->ScoreCsr(model, arrays.view(), {.best = 2}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CsrCutter, TakesEveryRowOnceInOrderWithinTheRoom) {
  test::Random random(5);
  for (const bool with_lengths : {false, true}) {
    const auto rows = test::RandomRows(3000, {.features = 10, .longest = 90, .has_values = false}, random);
    const test::CsrArrays arrays(rows, false);
    CsrView view = arrays.view();
    std::vector<uint32_t> lengths;
    for (const Row& row : rows) lengths.push_back(static_cast<uint32_t>(row.features.size()));
    if (with_lengths) {
      view.indptr.reset();
      view.row_lengths = TypedArray::Of(ElementType::kU32, lengths.data(), lengths.size());
    }
    CsrCutter cutter(view);
    uint64_t next_row = 0;
    uint64_t next_entry = 0;
    while (!cutter.done()) {
      const CsrShape room{static_cast<uint64_t>(test::Between(random, 1, 400)),
                          static_cast<uint64_t>(test::Between(random, 1, 5000))};
      const auto parts = cutter.Take(room, 5000, 700);
      ASSERT_FALSE(parts.empty());
      uint64_t taken = 0;
      for (const CsrCutter::Part& part : parts) {
        ASSERT_EQ(part.row, next_row);
        ASSERT_EQ(part.begin, next_entry);
        ASSERT_GT(part.rows, 0U);
        uint64_t entries = 0;
        for (uint64_t r = part.row; r < part.row + part.rows; ++r) entries += lengths[r];
        ASSERT_EQ(part.entries, entries);
        ASSERT_TRUE(entries <= 700 || part.rows == 1);
        next_row += part.rows;
        next_entry += part.entries;
        taken += part.rows;
      }
      ASSERT_LE(taken, room.rows);
    }
    EXPECT_EQ(next_row, rows.size());
    EXPECT_EQ(next_entry, view.indices.count);
  }
}

}  // namespace
}  // namespace widelane
