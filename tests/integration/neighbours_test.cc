// Requests of different callers that share a batch, held together by a device that waits until told.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "tests/support/check.h"
#include "tests/support/expect.h"
#include "tests/support/fake_device.h"
#include "tests/support/http.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

class NeighboursTest : public ::testing::Test {
 protected:
  NeighboursTest() : server_({{"r4", R4()}, {"id1", Id1()}}, Devices()) {
    Require(server_.server().WaitUntilLoaded(std::chrono::seconds(60)), "models are loaded");
  }
  ~NeighboursTest() override {
    device_->Unblock();
    for (std::thread& caller : callers_) caller.join();
  }

  std::vector<std::unique_ptr<Device>> Devices() {
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(FakeDevice::Cpu(device_));
    return devices;
  }

  // Occupies the device with one batch, so that what comes next gathers behind it.
  void HoldDevice() {
    const uint64_t before = device_->batches();
    device_->Block();
    Send(Request("r4", PlainRows({WireRow{}})), held_);
    ASSERT_TRUE(device_->WaitForBatches(before + 1, std::chrono::seconds(30)));
  }

  void Send(v1::ScoreRequest request, ScoreResult& result) {
    callers_.emplace_back([this, request = std::move(request), &result] { result = server_.Score(request); });
  }

  void ReleaseAndJoin() {
    device_->Unblock();
    for (std::thread& caller : callers_) caller.join();
    callers_.clear();
  }

  // Whether the server comes to hold so many requests at once, counting those it has refused as bad.
  bool EventuallyInFlight(double requests) {
    return Eventually([&] {
      const std::string page = server_.Metrics();
      const double refused = MetricValue(page, "widelane_requests_total", {"code=\"INVALID_ARGUMENT\""}).value_or(0);
      return MetricValue(page, "widelane_requests_in_flight").value_or(0) + refused >= requests;
    });
  }

  std::shared_ptr<FakeDeviceControl> device_ = std::make_shared<FakeDeviceControl>();
  ScoreResult held_;
  std::vector<std::thread> callers_;
  TestServer server_;
};

TEST_F(NeighboursTest, ABadRowFailsItsOwnRequestOnly) {
  HoldDevice();
  std::vector<v1::Rows> bad = {PlainRows({{{2, 3.0f}}, {{4, 1.0f}}}), PlainRows({{{2, 3.0f}}, {{-1, 1.0f}}}),
                               PlainRows({{{2147483647, 1.0f}}})};
  bad.push_back(EncodedRows({{{2, 3.0f}}, {{0, 1.0f}}}, {}));
  *bad.back().mutable_values() = Encode(v1::F32, {1, std::numeric_limits<double>::infinity()});
  constexpr size_t kRounds = 4;
  std::vector<ScoreResult> good_results(kRounds * bad.size());
  std::vector<ScoreResult> bad_results(good_results.size());
  const uint64_t held_rows = device_->rows();
  const uint64_t held_batches = device_->batches();
  for (size_t i = 0; i < good_results.size(); ++i) {
    Send(Request("r4", bad[i % bad.size()]), bad_results[i]);
    Send(Request("r4", PlainRows({{{2, 3.0f}}, {}})), good_results[i]);
  }
  ASSERT_TRUE(EventuallyInFlight(static_cast<double>(good_results.size() + bad_results.size()) + 1));
  ReleaseAndJoin();
  // Bad rows are found while their batch is filled and stay in it, together with the two rows of each good request.
  EXPECT_GT(device_->rows() - held_rows, 2 * good_results.size());
  EXPECT_LT(device_->batches() - held_batches, good_results.size());
  for (size_t i = 0; i < good_results.size(); ++i) {
    EXPECT_EQ(bad_results[i].status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    ExpectOk(good_results[i].status);
    ExpectNear(good_results[i].reply.scores(), {0.994779874, 0.320821301});
  }
  ExpectNear(held_.reply.scores(), {0.320821301});
  ExpectNear(server_.Scores(Request("r4", PlainRows({{{2, 3.0f}}}))), {0.994779874});
}

TEST_F(NeighboursTest, RequestsThatWaitShareABatch) {
  HoldDevice();
  constexpr size_t kCallers = 12;
  std::vector<ScoreResult> results(kCallers);
  for (size_t i = 0; i < kCallers; ++i) {
    v1::ScoreRequest request = Id1Request({static_cast<float>(i), static_cast<float>(i) + 0.5f});
    request.set_stage_times(true);
    Send(request, results[i]);
  }
  ASSERT_TRUE(EventuallyInFlight(kCallers + 1));
  ReleaseAndJoin();
  uint64_t largest = 0;
  for (size_t i = 0; i < kCallers; ++i) {
    ExpectOk(results[i].status);
    ExpectNear(results[i].reply.scores(), {static_cast<double>(i), static_cast<double>(i) + 0.5}, 0);
    largest = std::max(largest, results[i].reply.stage_times().batch_rows());
  }
  EXPECT_GE(largest, kCallers);  // twice that, if all had been packed before the release
  EXPECT_LT(device_->batches(), kCallers);
}

TEST_F(NeighboursTest, ValuesOfOneCallerNeverReachAnother) {
  HoldDevice();
  std::vector<ScoreResult> results(16);
  for (size_t i = 0; i < results.size(); ++i) {
    // Every other one sends no values, so that all its values are 1.
    const bool plain_ones = i % 2 == 0;
    Send(Request("r4", plain_ones ? PlainRows({0, 1}, {2}) : PlainRows({{{2, 3.0f}}})), results[i]);
  }
  ASSERT_TRUE(EventuallyInFlight(static_cast<double>(results.size()) + 1));
  ReleaseAndJoin();
  for (size_t i = 0; i < results.size(); ++i) {
    ExpectOk(results[i].status);
    ExpectNear(results[i].reply.scores(), {i % 2 == 0 ? 0.777300 : 0.994779874});
  }
}

// Some cancel their calls, one is out of time; all of them are in the server by then, and the device still waits.
TEST_F(NeighboursTest, ACallerThatLeavesDoesNotTakeOthersAlong) {
  HoldDevice();
  constexpr size_t kStaying = 4;
  constexpr size_t kLeaving = 4;
  constexpr size_t kHeldAndLate = 2;
  std::vector<ScoreResult> staying(kStaying);
  std::vector<grpc::ClientContext> contexts(kLeaving);
  std::vector<grpc::Status> leaving(kLeaving);
  std::vector<std::thread> leavers;
  ScoreResult late;
  for (size_t i = 0; i < kStaying; ++i) {
    v1::ScoreRequest request = Id1Request({static_cast<float>(i)});
    request.set_stage_times(true);
    Send(request, staying[i]);
  }
  for (size_t i = 0; i < kLeaving; ++i) {
    leavers.emplace_back([&, i] {
      v1::ScoreReply reply;
      leaving[i] = server_.stub().Score(&contexts[i], Id1Request({100, 101}), &reply);
    });
  }
  leavers.emplace_back([&] { late = Score(server_.stub(), Id1Request({200}), std::chrono::seconds(5)); });
  EXPECT_TRUE(EventuallyInFlight(kStaying + kLeaving + kHeldAndLate));
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (std::thread& leaver : leavers) leaver.join();
  for (const grpc::Status& status : leaving) ExpectError(status, grpc::StatusCode::CANCELLED);
  ExpectError(late.status, grpc::StatusCode::DEADLINE_EXCEEDED);
  ReleaseAndJoin();
  uint64_t largest = 0;
  for (size_t i = 0; i < kStaying; ++i) {
    ExpectOk(staying[i].status);
    ExpectNear(staying[i].reply.scores(), {static_cast<double>(i)}, 0);
    largest = std::max(largest, staying[i].reply.stage_times().batch_rows());
  }
  // Rows of those who left were in it, too.
  EXPECT_GT(largest, kStaying);
  EXPECT_TRUE(Eventually([&] { return MetricValue(server_.Metrics(), "widelane_requests_in_flight") == 0.0; }));
}

}  // namespace
}  // namespace widelane::test
