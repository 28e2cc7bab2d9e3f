// More than the server can do: refused at once, no harm to what was accepted, and all is well right afterwards.

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "tests/support/expect.h"
#include "tests/support/held_server.h"
#include "tests/support/rows.h"

namespace widelane::test {
namespace {

using grpc::StatusCode;

constexpr uint64_t kQueuedRows = 100;
constexpr uint32_t kBatchRows = 10;

void Hundred(ServerConfig& config) {
  config.limits.max_queued_rows = kQueuedRows;
  config.limits.max_queued_requests = 100'000;
  config.batching.max_rows = kBatchRows;
}

TEST(OverloadTest, OfTenThousandAtOnceAHundredAreTakenAndTheRestRefused) {
  constexpr size_t kCalls = kSanitized ? 1000 : 10'000;
  constexpr size_t kChannels = 10;
  HeldServer server({{"id1", Id1()}}, Hundred);
  std::vector<std::unique_ptr<v1::Scoring::Stub>> stubs;
  for (size_t i = 0; i < kChannels; ++i) {
    stubs.push_back(v1::Scoring::NewStub(Connect(server->server().grpc_address())));
  }
  // All of the kind that no half precision holds, so that any of them share a batch.
  const auto value = [](size_t call) { return static_cast<float>(call) + 0.1F; };
  PendingCalls calls;
  server.Hold(calls, Id1Request({value(0)}));
  for (size_t i = 1; i < kCalls; ++i) calls.Send(*stubs[i % kChannels], Id1Request({value(i)}));
  // The device is still busy: refusals wait for nothing.
  ASSERT_TRUE(Eventually([&] { return calls.done() == kCalls - kQueuedRows; }));
  EXPECT_EQ(calls.Ended(StatusCode::RESOURCE_EXHAUSTED), kCalls - kQueuedRows);
  server.device().Unblock();
  calls.WaitForAll();
  EXPECT_EQ(calls.Ended(StatusCode::OK), kQueuedRows);
  for (size_t i = 0; i < kCalls; ++i) {
    const ScoreResult& result = calls.Wait(i);
    if (result.status.ok()) {
      ASSERT_EQ(result.reply.scores(0), value(i));
    } else {
      ASSERT_TRUE(TellsWhenToRetry(result.status)) << result.status.error_message();
    }
  }
  // Full batches, and nothing but what was answered.
  EXPECT_EQ(server.rows(), kQueuedRows);
  EXPECT_LE(server.batches(), 2 + kQueuedRows / kBatchRows);
  EXPECT_TRUE(server.WaitForInFlight(0));
  EXPECT_EQ(server.Metric("widelane_refused_total", {"reason=\"max-queued-rows\""}),
            static_cast<double>(kCalls - kQueuedRows));
  // All of the room is there again.
  EXPECT_EQ(server->Scores(Id1Request(std::vector<float>(kQueuedRows, 7.0F))), std::vector<float>(kQueuedRows, 7.0F));
}

// Three times as many callers as there is room for, who come back whenever they are answered: every batch is full, and
// no row is scored for nothing.
TEST(OverloadTest, AnOverloadedServerDoesAsMuchAsItCan) {
  constexpr size_t kCallers = 3 * kQueuedRows;
  constexpr uint64_t kRounds = kSanitized ? 10 : 50;
  HeldServer server({{"id1", Id1()}}, Hundred);
  PendingCalls calls;
  server.Hold(calls, Id1Request({0}));
  std::deque<size_t> callers;
  const auto call = [&] { callers.push_back(calls.Send(server.stub(), Id1Request({1}))); };
  for (size_t i = 0; i < kCallers; ++i) call();
  for (uint64_t round = 0; round < kRounds; ++round) {
    // Who was answered or refused calls again, until the room is filled.
    ASSERT_TRUE(Eventually([&] {
      for (size_t i = callers.size(); i-- > 0;) {
        const size_t first = callers.front();
        callers.pop_front();
        if (calls.done(first)) {
          call();
        } else {
          callers.push_back(first);
        }
      }
      return server.InFlight() >= kQueuedRows;
    }));
    ASSERT_TRUE(server.FinishBatch());
  }
  EXPECT_EQ(server.batches(), kRounds + 1);
  // Within a tenth of what the device can do.
  EXPECT_GE(server.rows(), 1 + kRounds * kBatchRows * 9 / 10);
  server.device().Unblock();
  calls.WaitForAll();
  EXPECT_EQ(calls.Ended(StatusCode::OK), server.rows());
  EXPECT_EQ(calls.Ended(StatusCode::OK) + calls.Ended(StatusCode::RESOURCE_EXHAUSTED), calls.done());
}

}  // namespace
}  // namespace widelane::test
