// What a reply can hold: scores, raw sums, labels, probabilities, the best k; and what is refused.

#include <gtest/gtest.h>

#include "tests/support/expect.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

// Outputs equal to the values of features 0 to 2, so that a test can set raw sums at will.
std::shared_ptr<const Model> Three(Link link, const std::vector<std::string>& labels = {"a", "b", "c"}) {
  return MakeModel(
      {.features = 3, .outputs = 3, .weights = {1, 0, 0, 0, 1, 0, 0, 0, 1}, .link = link, .labels = labels});
}
WireRow Raws(float a, float b, float c) { return {{0, a}, {1, b}, {2, c}}; }

class OutputsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = new TestServer({{"r4", R4()},
                              {"softmax", Three(Link::kSoftmax)},
                              {"ovr", Three(Link::kOneVsRest)},
                              {"identity", Three(Link::kIdentity)},
                              {"nameless", Three(Link::kIdentity, {})},
                              {"svm", MakeModel({.features = 1, .weights = {1}, .labels = {"-1", "1"}})},
                              {"exp", MakeModel({.features = 1, .weights = {1}, .link = Link::kExp})}});
  }
  static void TearDownTestSuite() { delete server_; }

  static ScoreResult Ask(const std::string& model, const std::vector<WireRow>& rows,
                         const std::vector<v1::Output>& outputs, uint32_t top_k = 0) {
    v1::ScoreRequest request = Request(model, PlainRows(rows));
    for (const v1::Output output : outputs) request.add_outputs(output);
    request.set_top_k(top_k);
    return server_->Score(request);
  }

  static TestServer* server_;
};
TestServer* OutputsTest::server_ = nullptr;

std::vector<std::string> Labels(const ScoreResult& result) {
  return {result.reply.labels().begin(), result.reply.labels().end()};
}
using Indices = std::vector<uint32_t>;
Indices Top(const ScoreResult& result) {
  return {result.reply.top_outputs().begin(), result.reply.top_outputs().end()};
}

TEST_F(OutputsTest, ScoresUnlessToldOtherwise) {
  const ScoreResult result = Ask("r4", {{{2, 3.0f}}}, {});
  ExpectOk(result.status);
  ExpectNear(result.reply.scores(), {0.994779874});
  EXPECT_EQ(result.reply.outputs(), 1u);
  EXPECT_EQ(result.reply.rows(), 1u);
  EXPECT_EQ(result.reply.raw_size() + result.reply.labels_size() + result.reply.probabilities_size(), 0);
  EXPECT_FALSE(result.reply.has_stage_times());
}

TEST_F(OutputsTest, GivesAllAtOnce) {
  const ScoreResult result =
      Ask("r4", {{{2, 3.0f}}, {}}, {v1::LABELS, v1::RAW, v1::PROBABILITIES, v1::SCORES, v1::TOP_K}, 1);
  ExpectOk(result.status);
  ExpectNear(result.reply.scores(), {0.994779874, 0.320821301});
  ExpectNear(result.reply.raw(), {5.25, -0.75});
  ExpectNear(result.reply.probabilities(), {0.005220126, 0.994779874, 0.679178699, 0.320821301});
  EXPECT_EQ(Labels(result), (std::vector<std::string>{"1", "0"}));
  EXPECT_EQ(result.reply.positive_label(), "1");
  EXPECT_EQ(Top(result), (Indices{0, 0}));
}

TEST_F(OutputsTest, OnlyWhatIsAskedFor) {
  const ScoreResult result = Ask("r4", {{{2, 3.0f}}}, {v1::RAW});
  ExpectOk(result.status);
  EXPECT_EQ(result.reply.scores_size(), 0);
  ExpectNear(result.reply.raw(), {5.25});
}

TEST_F(OutputsTest, NormalisesAsTheLinkSays) {
  const std::vector<WireRow> rows = {Raws(1.0f, 0.5f, -2.0f)};
  ExpectNear(Ask("softmax", rows, {v1::SCORES}).reply.scores(), {0.603749, 0.366192, 0.030059});
  ExpectNear(Ask("softmax", rows, {v1::PROBABILITIES}).reply.probabilities(), {0.603749, 0.366192, 0.030059});
  ExpectNear(Ask("ovr", rows, {v1::SCORES}).reply.scores(), {0.496400, 0.422659, 0.080941});
  ExpectNear(Ask("ovr", rows, {v1::PROBABILITIES}).reply.probabilities(), {0.496400, 0.422659, 0.080941});
}

TEST_F(OutputsTest, StaysFiniteAtTheExtremes) {
  const std::vector<WireRow> rows = {Raws(1e30f, -1e30f, 0), Raws(-1e30f, -1e30f, -1e30f)};
  constexpr double kThird = 1.0 / 3;
  ExpectNear(Ask("softmax", rows, {v1::SCORES}).reply.scores(), {1, 0, 0, kThird, kThird, kThird});
  ExpectNear(Ask("ovr", rows, {v1::SCORES}).reply.scores(), {2 * kThird, 0, kThird, kThird, kThird, kThird});
}

TEST_F(OutputsTest, LabelsTheLargestAndTheLowestOfEquals) {
  const ScoreResult result =
      Ask("softmax", {Raws(1, 2, 0), Raws(2, 2, 2), Raws(0, 3, 3), {}, Raws(-1, -2, -1)}, {v1::LABELS});
  ExpectOk(result.status);
  EXPECT_EQ(Labels(result), (std::vector<std::string>{"b", "a", "b", "a", "a"}));
}

TEST_F(OutputsTest, RanksEqualScoresByLowerIndex) {
  const ScoreResult result = Ask("identity", {Raws(1, 5, 3), Raws(2, 7, 7), Raws(0, 0, 0)}, {v1::TOP_K}, 2);
  ExpectOk(result.status);
  EXPECT_EQ(Top(result), (Indices{1, 2, 1, 2, 0, 1}));
  ExpectNear(result.reply.top_scores(), {5, 3, 7, 7, 0, 0});
  EXPECT_EQ(Top(Ask("identity", {Raws(1, 5, 3)}, {v1::TOP_K}, 3)), (Indices{1, 2, 0}));
}

TEST_F(OutputsTest, RefusesTopKOutsideTheOutputs) {
  for (const uint32_t k : {0u, 4u, 4000000000u}) {
    ExpectBadField(Ask("identity", {Raws(1, 5, 3)}, {v1::TOP_K}, k).status, "top_k", {"3"});
  }
  ExpectBadField(Ask("r4", {{}}, {v1::TOP_K}, 2).status, "top_k");
}

TEST_F(OutputsTest, RefusesProbabilitiesOfAModelThatHasNone) {
  for (const char* model : {"svm", "identity", "exp"}) {
    ExpectError(Ask(model, {{}}, {v1::PROBABILITIES}).status, grpc::StatusCode::FAILED_PRECONDITION,
                {model == std::string("exp") ? "exp" : "identity"});
  }
  const ScoreResult result = Ask("svm", {{{0, 2.5f}}, {{0, -1.0f}}, {}}, {v1::SCORES, v1::LABELS});
  ExpectOk(result.status);
  ExpectNear(result.reply.scores(), {2.5, -1, 0});
  EXPECT_EQ(Labels(result), (std::vector<std::string>{"1", "-1", "-1"}));
}

TEST_F(OutputsTest, RefusesLabelsOfAModelThatHasNone) {
  for (const char* model : {"nameless", "exp"}) {
    ExpectError(Ask(model, {{}}, {v1::LABELS}).status, grpc::StatusCode::FAILED_PRECONDITION, {"label"});
  }
}

TEST_F(OutputsTest, RefusesScoresBeyondFloat32NamingTheRow) {
  const std::vector<WireRow> rows = {{{0, 1.0f}}, {{0, 89.0f}}};  // exp(89) is above the largest float32
  ExpectError(Ask("exp", rows, {v1::SCORES}).status, grpc::StatusCode::OUT_OF_RANGE, {"row 1"});
  const ScoreResult raw = Ask("exp", rows, {v1::RAW});
  ExpectOk(raw.status);
  ExpectNear(raw.reply.raw(), {1, 89});
  const ScoreResult below = Ask("exp", {{{0, 1.0f}}, {{0, 88.0f}}, {{0, -200.0f}}}, {v1::SCORES});
  ExpectOk(below.status);
  ExpectNear(below.reply.scores(), {2.718281828, below.reply.scores(1), 0});
  EXPECT_NEAR(below.reply.scores(1) / 1.6516362549940018e38, 1, 1e-6);
  // An identity model can pass float32 as well.
  const std::vector<WireRow> large = {{{0, 3e38f}, {0, 3e38f}}};
  ExpectError(Ask("svm", large, {v1::SCORES}).status, grpc::StatusCode::OUT_OF_RANGE, {"row 0"});
  ExpectOk(Ask("svm", large, {v1::RAW, v1::LABELS}).status);
}

TEST_F(OutputsTest, TellsStageTimesIfAsked) {
  v1::ScoreRequest request = Request("r4", PlainRows({{{2, 3.0f}}}));
  request.set_stage_times(true);
  const ScoreResult result = server_->Score(request);
  ExpectOk(result.status);
  ASSERT_TRUE(result.reply.has_stage_times());
  const v1::StageTimes& times = result.reply.stage_times();
  EXPECT_EQ(times.device(), "cpu");
  EXPECT_EQ(times.batches(), 1u);
  EXPECT_GE(times.batch_rows(), 1u);
  EXPECT_GT(times.total_ns(), 0u);
  EXPECT_LE(times.compute_ns(), times.total_ns());
}

}  // namespace
}  // namespace widelane::test
