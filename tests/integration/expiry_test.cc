// What nobody waits for any more is told in time, and never reaches the device.

#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/expect.h"
#include "tests/support/fake_clock.h"
#include "tests/support/held_server.h"
#include "tests/support/rows.h"
#include "tests/support/score_stream.h"

namespace widelane::test {
namespace {

using grpc::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

void OneRowABatch(ServerConfig& config) { config.batching.max_rows = 1; }

StatusCode CodeOf(const v1::StreamReply& reply) { return static_cast<StatusCode>(reply.error().code()); }

// Batches of one row and 40 ms, twelve requests of 100 ms, by a clock that only the test moves.
TEST(ExpiryTest, OfTwelveRequestsTheTwoAreAnsweredForWhichThereIsTime) {
  FakeClock clock;
  HeldServer server(OneModel(), OneRowABatch, &clock);
  server.device().Block();
  ScoreStream stream(server.stub());
  for (uint64_t id = 1; id <= 12; ++id) ASSERT_TRUE(stream.Send(id, Id1Request({static_cast<float>(id)}), 100));
  ASSERT_TRUE(server.WaitForInFlight(12));
  v1::StreamReply reply;
  for (int i = 0; i < 2; ++i) {
    clock.Advance(milliseconds(40));
    ASSERT_TRUE(server.FinishBatch());
    ASSERT_TRUE(stream.Receive(reply));
    EXPECT_EQ(reply.reply().scores(0), static_cast<float>(reply.id()));
  }
  // The third batch runs; the nine behind it are told while it does.
  clock.Advance(milliseconds(20));
  for (int i = 0; i < 9; ++i) {
    ASSERT_TRUE(stream.Receive(reply));
    EXPECT_EQ(CodeOf(reply), StatusCode::DEADLINE_EXCEEDED) << reply.id();
  }
  clock.Advance(milliseconds(20));
  server.device().Unblock();
  ASSERT_TRUE(stream.Receive(reply));
  EXPECT_EQ(CodeOf(reply), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(server.batches(), 3u);
}

// The same by the machine's clock, as calls. What takes 40 ms is done twice within 100, at most.
TEST(ExpiryTest, CallsToo) {
  HeldServer server(OneModel(), OneRowABatch);
  server.device().set_delay(milliseconds(40));
  PendingCalls calls;
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < 12; ++i) calls.Send(server.stub(), Id1Request({1}), milliseconds(100));
  calls.WaitForAll();
  EXPECT_LT(Clock::now() - begin, seconds(10));
  EXPECT_GE(calls.Ended(StatusCode::DEADLINE_EXCEEDED), 9u);
  EXPECT_EQ(calls.Ended(StatusCode::DEADLINE_EXCEEDED) + calls.Ended(StatusCode::OK), 12u);
  ASSERT_TRUE(server.WaitForInFlight(0));
  // None starts after that.
  const uint64_t batches = server.batches();
  EXPECT_LE(batches, 4u);
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(server.batches(), batches);
}

// One long batch in front: who is behind it does not wait for its end.
TEST(ExpiryTest, ACallBehindALongBatchEndsOnTheServerInTime) {
  HeldServer server(OneModel());
  PendingCalls calls;
  server.Hold(calls, Id1Request({1}));
  const size_t behind = calls.Send(server.stub(), Id1Request({2}), milliseconds(100));
  EXPECT_EQ(calls.Wait(behind).status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(server.WaitForInFlight(1));
  // That its client has gone may be what the server sees first.
  EXPECT_EQ(server.Ended("DEADLINE_EXCEEDED") + server.Ended("CANCELLED"), 1);
  server.device().Unblock();
  ExpectOk(calls.Wait(0).status);
  EXPECT_EQ(server.batches(), 1u);
}

TEST(ExpiryTest, AfterFiftyCancelledCallsTheNextIsServedAtOnce) {
  HeldServer server(OneModel(), [](ServerConfig& config) {
    config.batching.max_rows = 4;
    config.engine.slabs = 3;
  });
  PendingCalls calls;
  server.Hold(calls, Id1Request({1}));
  for (int i = 0; i < 50; ++i) calls.Send(server.stub(), Id1Request({2, 3, 4}));
  ASSERT_TRUE(server.WaitForInFlight(51));
  for (size_t call = 1; call <= 50; ++call) calls.Cancel(call);
  ASSERT_TRUE(server.WaitForInFlight(1));
  EXPECT_EQ(server.Ended("CANCELLED"), 50);
  const size_t last = calls.Send(server.stub(), Id1Request({5}));
  ASSERT_TRUE(server.FinishBatch());
  server.device().Unblock();
  ExpectNear(calls.Wait(last).reply.scores(), {5}, 0);
  EXPECT_EQ(server.batches(), 2u);
  EXPECT_EQ(server.rows(), 2u);
}

TEST(ExpiryTest, ARequestThatArrivesTooLateIsRefusedAndNeverWaits) {
  FakeClock clock;
  HeldServer server(OneModel(), {}, &clock);
  ScoreStream stream(server.stub(), seconds(60));
  v1::StreamReply reply;
  ASSERT_TRUE(stream.Send(1, Id1Request({1})));
  ASSERT_TRUE(stream.Receive(reply));
  const uint64_t rows = server.rows();
  clock.Advance(seconds(61));
  ASSERT_TRUE(stream.Send(2, Id1Request({2})));
  ASSERT_TRUE(stream.Receive(reply));
  EXPECT_EQ(CodeOf(reply), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(server.Metric("widelane_refused_total", {"reason=\"deadline\""}), 1);
  EXPECT_EQ(server.rows(), rows);
}

}  // namespace
}  // namespace widelane::test
