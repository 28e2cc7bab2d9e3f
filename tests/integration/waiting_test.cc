// Nobody waits for company: by a clock that stands still, only what needs no waiting is ever answered.

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/support/expect.h"
#include "tests/support/fake_clock.h"
#include "tests/support/health.h"
#include "tests/support/held_server.h"
#include "tests/support/rows.h"

namespace widelane::test {
namespace {

using std::chrono::milliseconds;

void SixtyFourRowsABatch(ServerConfig& config) {
  config.batching.max_rows = 64;
  config.batching.max_delay = std::chrono::seconds(5);
}

std::vector<float> Numbers(size_t count) {
  std::vector<float> numbers;
  for (size_t i = 0; i < count; ++i) numbers.push_back(static_cast<float>(i));
  return numbers;
}

TEST(WaitingTest, AFewRowsStartAtOnceAndSoDoesAFullBatchAndOneMore) {
  FakeClock clock;
  HeldServer server({{"id1", Id1()}}, SixtyFourRowsABatch, &clock);
  for (const size_t rows : {1, 2, 63, 64, 65, 130}) EXPECT_EQ(server->Scores(Id1Request(Numbers(rows))), Numbers(rows));
  // Nor does a deadline that is soon over change that.
  EXPECT_EQ(Score(server.stub(), Id1Request({1}), milliseconds(5000)).reply.scores_size(), 1);
}

TEST(WaitingTest, SixtyFourOfSixtyFourLeaveTogetherAndTheNextIsNotLeftBehind) {
  FakeClock clock;
  HeldServer server({{"id1", Id1()}}, SixtyFourRowsABatch, &clock);
  PendingCalls calls;
  server.Hold(calls, Id1Request({0}));
  // None is 1: rows of ones only are of another kind.
  for (int i = 1; i <= 65; ++i) calls.Send(server.stub(), Id1Request({static_cast<float>(i) * 2}));
  ASSERT_TRUE(server.WaitForInFlight(66));
  ASSERT_TRUE(server.FinishBatch());
  ASSERT_TRUE(Eventually([&] { return server.rows() == 65; }));
  ASSERT_TRUE(server.FinishBatch());
  server.device().Unblock();
  calls.WaitForAll();
  for (size_t call = 0; call <= 65; ++call)
    ExpectNear(calls.Wait(call).reply.scores(), {2.0 * static_cast<double>(call)}, 0);
  EXPECT_EQ(server.batches(), 3u);
}

TEST(WaitingTest, FewCallersOfManyModelsAreNotHeldUp) {
  constexpr int kModels = 7;
  constexpr int kCallers = 8;
  constexpr int kCalls = kSanitized ? 20 : 100;
  FakeClock clock;
  TestServer::Models models;
  for (int i = 0; i < kModels; ++i) models["id" + std::to_string(i)] = Id1();
  HeldServer server(models, SixtyFourRowsABatch, &clock);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < kCalls; ++i) {
        v1::ScoreRequest request = Id1Request({static_cast<float>(caller * kCalls + i)});
        request.set_model("id" + std::to_string((caller + i) % kModels));
        ExpectNear(server->Scores(request), {static_cast<double>(caller * kCalls + i)}, 0);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// With many times as many callers waiting as there are threads.
TEST(WaitingTest, NoThreadIsHeldByWhoWaits) {
  HeldServer server({{"id1", Id1()}}, [](ServerConfig& config) { config.batching.max_rows = 4; });
  PendingCalls calls;
  server.Hold(calls, Id1Request({0}));
  for (int i = 1; i <= 100; ++i) calls.Send(server.stub(), Id1Request({static_cast<float>(i)}));
  ASSERT_TRUE(server.WaitForInFlight(101));
  EXPECT_EQ(server->Score(Request("stranger", PlainRows({WireRow{}}))).status.error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(CheckHealth(server->channel(), "").status, HealthReply::SERVING);
  server.device().Unblock();
  for (size_t call = 0; call <= 100; ++call) {
    ExpectNear(calls.Wait(call).reply.scores(), {static_cast<double>(call)}, 0);
  }
}

}  // namespace
}  // namespace widelane::test
