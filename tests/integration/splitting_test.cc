// Requests larger than a batch are cut by rows, and nobody can tell.

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "tests/support/expect.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

std::vector<WireRow> NumberedRows(int rows) {
  std::vector<WireRow> out;
  for (int k = 0; k < rows; ++k) out.push_back({{2, static_cast<float>(k)}});
  return out;
}

std::vector<double> NumberedScores(int rows) {
  std::vector<double> out;
  for (int k = 0; k < rows; ++k) out.push_back(1 / (1 + std::exp(-(2.0 * k - 0.75))));
  return out;
}

TEST(SplittingTest, AnswersInOrderWhateverTheCut) {
  TestServer server({{"r4", R4()}}, [](ServerConfig& config) { config.engine.slab.rows = 8; });
  for (const int rows : {8, 9, 21, 1000}) {
    ExpectNear(server.Scores(Request("r4", PlainRows(NumberedRows(rows)))), NumberedScores(rows));
  }
}

TEST(SplittingTest, SmallRequestsAreServedBesideALargeOne) {
  TestServer server({{"r4", R4()}}, [](ServerConfig& config) { config.engine.slab.rows = 8; });
  std::vector<std::thread> callers;
  for (int i = 0; i < 10; ++i) {
    callers.emplace_back([&] { ExpectNear(server.Scores(Request("r4", PlainRows({{{2, 3.0f}}}))), {0.994779874}); });
  }
  callers.emplace_back(
      [&] { ExpectNear(server.Scores(Request("r4", PlainRows(NumberedRows(21)))), NumberedScores(21)); });
  for (std::thread& caller : callers) caller.join();
}

TEST(SplittingTest, CutsByEntries) {
  TestServer server({{"r4", R4()}}, [](ServerConfig& config) { config.engine.slab.entries = 10; });
  const WireRow row = {{2, 1.5f}, {0, 2.0f}, {2, 0.25f}, {2, 0.25f}};
  ExpectNear(server.Scores(Request("r4", PlainRows(std::vector<WireRow>(10, row)))), std::vector<double>(10, 0.985936));
}

TEST(SplittingTest, CutsByResults) {
  const auto model = MakeModel({.features = 1, .outputs = 3, .weights = {1, 2, 3}});
  TestServer server({{"three", model}}, [](ServerConfig& config) { config.engine.slab.results = 7; });
  std::vector<WireRow> rows;
  std::vector<double> expected;
  for (int k = 0; k < 25; ++k) {
    rows.push_back({{0, static_cast<float>(k)}});
    for (int output = 1; output <= 3; ++output) expected.push_back(output * k);
  }
  ExpectNear(server.Scores(Request("three", PlainRows(rows))), expected, 0);
}

TEST(SplittingTest, ABadRowInALaterPieceFailsTheWholeRequestOnce) {
  TestServer server({{"r4", R4()}}, [](ServerConfig& config) { config.engine.slab.rows = 8; });
  std::vector<WireRow> rows = NumberedRows(100);
  rows[93] = {{2, 1.0f}, {17, 1.0f}};
  ExpectBadField(server.Score(Request("r4", PlainRows(rows))).status, "rows.", {"row 93", "[94]", "17"});
  ExpectNear(server.Scores(Request("r4", PlainRows(NumberedRows(21)))), NumberedScores(21));
}

TEST(SplittingTest, StageTimesCountTheBatches) {
  TestServer server({{"r4", R4()}}, [](ServerConfig& config) { config.engine.slab.rows = 8; });
  v1::ScoreRequest request = Request("r4", PlainRows(NumberedRows(21)));
  request.set_stage_times(true);
  const ScoreResult result = server.Score(request);
  ExpectOk(result.status);
  EXPECT_GE(result.reply.stage_times().batches(), 3u);
}

}  // namespace
}  // namespace widelane::test
