// Requests of different callers that share a batch, held together by a device that waits until told.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include "tests/support/expect.h"
#include "tests/support/held_server.h"
#include "tests/support/rows.h"

namespace widelane::test {
namespace {

class NeighboursTest : public ::testing::Test {
 protected:
  size_t Send(const v1::ScoreRequest& request, std::chrono::milliseconds deadline = kCallLimit) {
    return calls_.Send(server_.stub(), request, deadline);
  }
  // What comes next gathers behind a batch of one empty row.
  void HoldDevice() { server_.Hold(calls_, Request("r4", PlainRows({WireRow{}}))); }
  void Release() { server_.device().Unblock(); }
  // Rows of the largest batch that any of these calls was in.
  uint64_t LargestBatch(const std::vector<size_t>& calls) {
    uint64_t largest = 0;
    for (const size_t call : calls) largest = std::max(largest, calls_.Wait(call).reply.stage_times().batch_rows());
    return largest;
  }

  HeldServer server_{{{"r4", R4()}, {"id1", Id1()}}};
  PendingCalls calls_;
};

TEST_F(NeighboursTest, ABadRowFailsItsOwnRequestOnly) {
  HoldDevice();
  std::vector<v1::Rows> kinds = {PlainRows({{{2, 3.0f}}, {{4, 1.0f}}}), PlainRows({{{2, 3.0f}}, {{-1, 1.0f}}}),
                                 PlainRows({{{2147483647, 1.0f}}})};
  kinds.push_back(EncodedRows({{{2, 3.0f}}, {{0, 1.0f}}}, {}));
  *kinds.back().mutable_values() = Encode(v1::F32, {1, std::numeric_limits<double>::infinity()});
  constexpr size_t kRounds = 4;
  std::vector<size_t> bad;
  std::vector<size_t> good;
  for (size_t i = 0; i < kRounds * kinds.size(); ++i) {
    bad.push_back(Send(Request("r4", kinds[i % kinds.size()])));
    good.push_back(Send(Request("r4", PlainRows({{{2, 3.0f}}, {}}))));
  }
  // Bad ones are told at once.
  for (const size_t call : bad) ExpectError(calls_.Wait(call).status, grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(server_.WaitForInFlight(1 + static_cast<double>(good.size())));
  Release();
  for (const size_t call : good) {
    ExpectOk(calls_.Wait(call).status);
    ExpectNear(calls_.Wait(call).reply.scores(), {0.994779874, 0.320821301});
  }
  // Bad rows are found while their batch is filled and stay in it, together with the two rows of each good request.
  EXPECT_GT(server_.rows(), 1 + 2 * good.size());
  EXPECT_EQ(server_.batches(), 2u);
  ExpectNear(calls_.Wait(0).reply.scores(), {0.320821301});
  ExpectNear(server_->Scores(Request("r4", PlainRows({{{2, 3.0f}}}))), {0.994779874});
}

TEST_F(NeighboursTest, RequestsThatWaitShareABatch) {
  HoldDevice();
  constexpr size_t kCallers = 12;
  std::vector<size_t> sent;
  for (size_t i = 0; i < kCallers; ++i) {
    v1::ScoreRequest request = Id1Request({static_cast<float>(i), static_cast<float>(i) + 0.5f});
    request.set_stage_times(true);
    sent.push_back(Send(request));
  }
  ASSERT_TRUE(server_.WaitForInFlight(1 + kCallers));
  Release();
  for (size_t i = 0; i < kCallers; ++i) {
    const ScoreResult& result = calls_.Wait(sent[i]);
    ExpectOk(result.status);
    ExpectNear(result.reply.scores(), {static_cast<double>(i), static_cast<double>(i) + 0.5}, 0);
  }
  EXPECT_EQ(LargestBatch(sent), 2 * kCallers);
  EXPECT_EQ(server_.batches(), 2u);
}

TEST_F(NeighboursTest, ValuesOfOneCallerNeverReachAnother) {
  HoldDevice();
  constexpr size_t kCallers = 16;
  std::vector<size_t> sent;
  for (size_t i = 0; i < kCallers; ++i) {
    // Every other one sends no values, so that all its values are 1.
    sent.push_back(Send(Request("r4", i % 2 == 0 ? PlainRows({0, 1}, {2}) : PlainRows({{{2, 3.0f}}}))));
  }
  ASSERT_TRUE(server_.WaitForInFlight(1 + kCallers));
  Release();
  for (size_t i = 0; i < kCallers; ++i) {
    ExpectOk(calls_.Wait(sent[i]).status);
    ExpectNear(calls_.Wait(sent[i]).reply.scores(), {i % 2 == 0 ? 0.777300 : 0.994779874});
  }
}

// Some cancel their calls, one is out of time; all of them are in the server by then, and the device still waits.
TEST_F(NeighboursTest, ACallerThatLeavesDoesNotTakeOthersAlong) {
  HoldDevice();
  constexpr size_t kStaying = 4;
  constexpr size_t kLeaving = 4;
  constexpr size_t kHeldAndLate = 2;
  std::vector<size_t> staying;
  std::vector<size_t> leaving;
  for (size_t i = 0; i < kStaying; ++i) {
    v1::ScoreRequest request = Id1Request({static_cast<float>(i)});
    request.set_stage_times(true);
    staying.push_back(Send(request));
  }
  for (size_t i = 0; i < kLeaving; ++i) leaving.push_back(Send(Id1Request({100, 101})));
  const size_t late = Send(Id1Request({200}), std::chrono::seconds(5));
  EXPECT_TRUE(server_.WaitForInFlight(kStaying + kLeaving + kHeldAndLate));
  for (const size_t call : leaving) calls_.Cancel(call);
  for (const size_t call : leaving) ExpectError(calls_.Wait(call).status, grpc::StatusCode::CANCELLED);
  ExpectError(calls_.Wait(late).status, grpc::StatusCode::DEADLINE_EXCEEDED);
  Release();
  for (size_t i = 0; i < kStaying; ++i) {
    ExpectOk(calls_.Wait(staying[i]).status);
    ExpectNear(calls_.Wait(staying[i]).reply.scores(), {static_cast<double>(i)}, 0);
  }
  // Rows of those who left were in it, too.
  EXPECT_GT(LargestBatch(staying), kStaying);
  EXPECT_TRUE(server_.WaitForInFlight(0));
}

}  // namespace
}  // namespace widelane::test
