// What rows mean: duplicates, order, empty rows, no rows (through the wire, in every form).

#include "tests/support/rows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/expect.h"
#include "tests/support/test_server.h"
#include "tests/support/ways.h"

namespace widelane::test {
namespace {

constexpr double kThree = 0.994779874;  // R4 for {2:3}
constexpr double kEmpty = 0.320821301;  // R4 for an empty row

class RowsTest : public ::testing::TestWithParam<Way> {
 protected:
  static void SetUpTestSuite() {
    ModelSpec no_bias = {.features = 2, .weights = {1, 2}, .link = Link::kSigmoid, .labels = {"no", "yes"}};
    const auto negative = MakeModel(no_bias);
    no_bias.tie = Tie::kPositive;
    server_ = new TestServer({{"r4", R4()}, {"tie_negative", negative}, {"tie_positive", MakeModel(no_bias)}});
  }
  static void TearDownTestSuite() { delete server_; }

  ScoreResult Score(const v1::ScoreRequest& request) { return test::Score(GetParam(), server_->stub(), request); }
  std::vector<float> R4Scores(const v1::Rows& rows) {
    const ScoreResult result = Score(Request("r4", rows));
    ExpectOk(result.status);
    return {result.reply.scores().begin(), result.reply.scores().end()};
  }

  static TestServer* server_;
};
TestServer* RowsTest::server_ = nullptr;

TEST_P(RowsTest, AddsDuplicatesInAnyOrder) {
  const WireRow duplicates = {{2, 1.5f}, {0, 2.0f}, {2, 0.5f}};
  const WireRow unsorted = {{3, 4.0f}, {0, 1.0f}, {1, 2.0f}};
  ExpectNear(R4Scores(PlainRows({duplicates})), {0.985936});
  ExpectNear(R4Scores(PlainRows({unsorted})), {0.148047});
  ExpectNear(R4Scores(PlainRows({duplicates, unsorted})), {0.985936, 0.148047});
  ExpectNear(R4Scores(EncodedRows({duplicates, unsorted}, {})), {0.985936, 0.148047});
}

TEST_P(RowsTest, AddsAFeatureThatComesAThousandTimes) {
  ExpectNear(R4Scores(PlainRows({WireRow(1000, {2, 0.001f})})), {0.777300});
}

TEST_P(RowsTest, GivesTheSameBitsForEveryOrder) {
  WireRow row = {{0, 1.1f}, {1, -7.3e-3f}, {2, 913.7f}, {3, 0.33f}, {1, 55.5f}};
  v1::ScoreRequest request = Request("r4", PlainRows({row}));
  request.add_outputs(v1::RAW);
  const double raw = Score(request).reply.raw(0);
  std::sort(row.begin(), row.end());
  do {
    v1::ScoreRequest permuted = Request("r4", PlainRows({row}));
    permuted.add_outputs(v1::RAW);
    ASSERT_EQ(Score(permuted).reply.raw(0), raw);
  } while (std::next_permutation(row.begin(), row.end()));
}

TEST_P(RowsTest, AnswersEmptyRowsAtTheEnd) {
  ExpectNear(R4Scores(PlainRows({0, 1, 1, 1}, {2}, {3})), {kThree, kEmpty, kEmpty});
  ExpectNear(R4Scores(EncodedRows({{{2, 3.0f}}, {}, {}}, {.row_lengths = true, .offsets = v1::U16})),
             {kThree, kEmpty, kEmpty});
}

TEST_P(RowsTest, AllEmptyBatchNeverShowsEarlierNumbers) {
  for (int round = 0; round < 20; ++round) {
    ExpectNear(R4Scores(PlainRows({{{2, 3.0f}}, {{2, 3.0f}}, {{2, 3.0f}}})), {kThree, kThree, kThree});
    ExpectNear(R4Scores(PlainRows({0, 0, 0, 0}, {})), {kEmpty, kEmpty, kEmpty});
    ExpectNear(R4Scores(EncodedRows({{}, {}, {}}, {})), {kEmpty, kEmpty, kEmpty});
  }
}

TEST_P(RowsTest, NoRowsAreNoScores) {
  for (const v1::Rows& rows : {PlainRows({0}, {}), EncodedRows({}, {}), EncodedRows({}, {.offsets = v1::I64})}) {
    v1::ScoreRequest request = Request("r4", rows);
    for (const v1::Output output : {v1::SCORES, v1::RAW, v1::LABELS, v1::PROBABILITIES}) request.add_outputs(output);
    const ScoreResult result = Score(request);
    ExpectOk(result.status);
    EXPECT_EQ(result.reply.rows(), 0u);
    EXPECT_EQ(result.reply.scores_size() + result.reply.raw_size() + result.reply.labels_size(), 0);
    EXPECT_EQ(result.reply.version(), "1");
  }
}

TEST_P(RowsTest, NoRowsByRowLengths) {
  v1::Rows rows;
  *rows.mutable_row_lengths() = Encode(v1::U32, {});
  *rows.mutable_indices() = Encode(v1::U32, {});
  const ScoreResult result = Score(Request("r4", rows));
  ExpectOk(result.status);
  EXPECT_EQ(result.reply.rows(), 0u);
}

TEST_P(RowsTest, AnswersThirtyTwoThousandRowsWhoseLastAreEmpty) {
  std::vector<WireRow> rows(32768, WireRow{{2, 3.0f}});
  std::fill(rows.end() - 7, rows.end(), WireRow{});
  std::vector<double> expected(rows.size(), kThree);
  std::fill(expected.end() - 7, expected.end(), kEmpty);
  ExpectNear(R4Scores(EncodedRows(rows, {})), expected);
}

TEST_P(RowsTest, EmptyRowWithoutBiasIsATieByTheModelsRule) {
  for (const auto& [model, label] : {std::pair{"tie_negative", "no"}, std::pair{"tie_positive", "yes"}}) {
    v1::ScoreRequest request = Request(model, PlainRows({0, 0}, {}));
    for (const v1::Output output : {v1::SCORES, v1::LABELS, v1::PROBABILITIES}) request.add_outputs(output);
    const ScoreResult result = Score(request);
    ExpectOk(result.status);
    ASSERT_EQ(result.reply.scores_size(), 1);
    EXPECT_EQ(result.reply.scores(0), 0.5f);
    ASSERT_EQ(result.reply.labels_size(), 1);
    EXPECT_EQ(result.reply.labels(0), label);
    ExpectNear(result.reply.probabilities(), {0.5, 0.5}, 0);
    EXPECT_EQ(result.reply.positive_label(), "yes");
  }
}

INSTANTIATE_TEST_SUITE_P(BothWays, RowsTest, ::testing::ValuesIn(kWays), WayName);

}  // namespace
}  // namespace widelane::test
