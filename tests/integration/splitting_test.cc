// Requests larger than a batch are cut by rows, and nobody can tell.

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "tests/support/expect.h"
#include "tests/support/fake_clock.h"
#include "tests/support/held_server.h"
#include "tests/support/rows.h"
#include "tests/support/score_stream.h"
#include "tests/support/test_server.h"
#include "tests/support/ways.h"

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

// By the options for batches instead of the size of slabs, and counted on the device.
class BatchLimitTest : public ::testing::TestWithParam<Way> {
 protected:
  void ExpectScores(HeldServer& server, const std::vector<WireRow>& rows, const std::vector<double>& expected) {
    const ScoreResult result = Score(GetParam(), server.stub(), Request("r4", PlainRows(rows)));
    ExpectOk(result.status);
    ExpectNear(result.reply.scores(), expected);
  }
};

TEST_P(BatchLimitTest, CutsByRows) {
  HeldServer server({{"r4", R4()}}, [](ServerConfig& config) { config.batching.max_rows = 8; });
  uint64_t batches = 0;
  for (const int rows : {8, 9, 21, 1000}) {
    ExpectScores(server, NumberedRows(rows), NumberedScores(rows));
    batches += static_cast<uint64_t>(rows + 7) / 8;
    EXPECT_EQ(server.batches(), batches) << rows;
  }
  EXPECT_EQ(server.rows(), 8u + 9 + 21 + 1000);
}

TEST_P(BatchLimitTest, CutsByEntries) {
  HeldServer server({{"r4", R4()}}, [](ServerConfig& config) { config.batching.max_entries = 10; });
  const WireRow four = {{2, 1.5f}, {0, 2.0f}, {2, 0.25f}, {2, 0.25f}};
  ExpectScores(server, std::vector<WireRow>(10, four), std::vector<double>(10, 0.985936));
  EXPECT_EQ(server.batches(), 5u);
  // A longer row goes alone.
  ExpectScores(server, {four, WireRow(1000, {2, 0.001f}), four}, {0.985936, 0.777300, 0.985936});
  EXPECT_EQ(server.batches(), 8u);
}

INSTANTIATE_TEST_SUITE_P(BothWays, BatchLimitTest, ::testing::ValuesIn(kWays), WayName);

TEST(SplittingTest, SmallRequestsDoNotWaitForTheWholeOfALargeOne) {
  HeldServer server({{"r4", R4()}}, [](ServerConfig& config) { config.batching.max_rows = 8; });
  PendingCalls calls;
  server.Hold(calls, Request("r4", PlainRows({WireRow{}})));
  const size_t large = calls.Send(server.stub(), Request("r4", PlainRows(NumberedRows(1000))));
  ASSERT_TRUE(server.WaitForInFlight(2));
  std::vector<size_t> small;
  for (int i = 0; i < 10; ++i) small.push_back(calls.Send(server.stub(), Request("r4", PlainRows({{{2, 3.0f}}}))));
  ASSERT_TRUE(server.WaitForInFlight(12));
  const auto small_done = [&] {
    size_t done = 0;
    for (const size_t call : small) done += calls.done(call) ? 1 : 0;
    return done;
  };
  // Of the 126 batches that the large one takes.
  for (int batch = 0; batch < 20; ++batch) ASSERT_TRUE(server.FinishBatch());
  EXPECT_TRUE(Eventually([&] { return small_done() == small.size(); }));
  EXPECT_FALSE(calls.done(large));
  server.device().Unblock();
  for (const size_t call : small) ExpectNear(calls.Wait(call).reply.scores(), {0.994779874});
  ExpectNear(calls.Wait(large).reply.scores(), NumberedScores(1000));
}

TEST(SplittingTest, OneDeadlineForAllPieces) {
  FakeClock clock;
  const auto configure = [](ServerConfig& config) { config.batching.max_rows = 8; };
  HeldServer server({{"r4", R4()}}, configure, &clock);
  server.device().Block();
  ScoreStream stream(server.stub());
  ASSERT_TRUE(stream.Send(1, Request("r4", PlainRows(NumberedRows(1000))), 100));
  ASSERT_TRUE(stream.Send(2, Request("r4", PlainRows({{{2, 3.0f}}}))));
  ASSERT_TRUE(server.WaitForInFlight(2));
  ASSERT_TRUE(server.FinishBatch());
  clock.Advance(std::chrono::milliseconds(100));
  server.device().Unblock();
  v1::StreamReply replies[2];
  for (v1::StreamReply& reply : replies) ASSERT_TRUE(stream.Receive(reply));
  const size_t large = replies[0].id() == 1 ? 0 : 1;
  EXPECT_EQ(replies[large].error().code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  ExpectNear(replies[1 - large].reply().scores(), {0.994779874});
  stream.Close();
  EXPECT_FALSE(stream.Receive(replies[0]));
  EXPECT_LE(server.batches(), 3u);
}

}  // namespace
}  // namespace widelane::test
