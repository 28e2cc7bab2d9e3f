// Who goes first where the device is busy: priorities, and models that take turns.

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <vector>

#include "tests/support/check.h"
#include "tests/support/expect.h"
#include "tests/support/held_server.h"
#include "tests/support/rows.h"
#include "tests/support/score_stream.h"
#include "tests/support/ways.h"

namespace widelane::test {
namespace {

const std::vector<float> kFullBatch = {1, 2, 3, 4};

void FourRowsABatch(ServerConfig& config) {
  config.batching.max_rows = 4;
  config.engine.slabs = 6;
}

v1::ScoreRequest Prioritized(v1::Priority priority) {
  v1::ScoreRequest request = Id1Request(kFullBatch);
  request.set_priority(priority);
  return request;
}

TEST(PriorityTest, AHighOneIsInTheNextBatch) {
  HeldServer server({{"id1", Id1()}}, FourRowsABatch);
  PendingCalls calls;
  server.Hold(calls, Id1Request({0}));
  for (int i = 0; i < 100; ++i) calls.Send(server.stub(), Prioritized(v1::LOW));
  ASSERT_TRUE(server.WaitForInFlight(101));
  const size_t high = calls.Send(server.stub(), Prioritized(v1::HIGH));
  ASSERT_TRUE(server.WaitForInFlight(102));
  ASSERT_TRUE(server.FinishBatch());
  ASSERT_TRUE(server.FinishBatch());
  ExpectOk(calls.Wait(high).status);
  EXPECT_EQ(calls.done(), 2u);
  server.device().Unblock();
  calls.WaitForAll();
  EXPECT_EQ(calls.Ended(grpc::StatusCode::OK), 102u);
}

// Two high batches come for each that is done.
TEST(PriorityTest, LowOnesAreNotStarved) {
  HeldServer server({{"id1", Id1()}}, FourRowsABatch);
  PendingCalls calls;
  server.Hold(calls, Id1Request({0}));
  std::vector<size_t> low;
  for (int i = 0; i < 3; ++i) low.push_back(calls.Send(server.stub(), Prioritized(v1::LOW)));
  ASSERT_TRUE(server.WaitForInFlight(4));
  constexpr size_t kMost = 100;
  size_t high = 0;
  const auto all_low_done = [&] { return calls.done(low[0]) && calls.done(low[1]) && calls.done(low[2]); };
  while (!all_low_done() && high < kMost) {
    for (int i = 0; i < 2; ++i, ++high) calls.Send(server.stub(), Prioritized(v1::HIGH));
    ASSERT_TRUE(Eventually([&] { return server.InFlight() + static_cast<double>(calls.done()) >= high + 4; }));
    ASSERT_TRUE(server.FinishBatch());
  }
  EXPECT_LT(high, kMost);
  server.device().Unblock();
}

TEST(PriorityTest, NotSetIsNotTheLowest) {
  HeldServer server({{"id1", Id1()}}, FourRowsABatch);
  PendingCalls calls;
  server.Hold(calls, Id1Request({0}));
  const size_t low = calls.Send(server.stub(), Prioritized(v1::LOW));
  ASSERT_TRUE(server.WaitForInFlight(2));
  const size_t not_set = calls.Send(server.stub(), Id1Request(kFullBatch));
  ASSERT_TRUE(server.WaitForInFlight(3));
  ASSERT_TRUE(server.FinishBatch());
  ASSERT_TRUE(server.FinishBatch());
  ExpectOk(calls.Wait(not_set).status);
  EXPECT_FALSE(calls.done(low));
  server.device().Unblock();
}

TEST(PriorityTest, OneThatIsNotListedIsRefused) {
  TestServer server({{"id1", Id1()}});
  for (const Way way : kWays) {
    for (const int priority : {4, 100, -1}) {
      ExpectBadField(Score(way, server.stub(), Prioritized(static_cast<v1::Priority>(priority))).status, "priority");
    }
    for (const v1::Priority priority : {v1::PRIORITY_UNSPECIFIED, v1::HIGH, v1::NORMAL, v1::LOW}) {
      ExpectOk(Score(way, server.stub(), Prioritized(priority)).status);
    }
  }
}

// A model with all the room it can get, and one that has a single request.
TEST(PriorityTest, ASlowModelWithAFullQueueHoldsTheOtherUpForOneBatch) {
  HeldServer server({{"slow", Id1()}, {"id1", Id1()}}, [](ServerConfig& config) {
    FourRowsABatch(config);
    config.limits.max_queued_rows = 100;
  });
  v1::ScoreRequest slow = Id1Request(kFullBatch);
  slow.set_model("slow");
  PendingCalls calls;
  server.Hold(calls, slow);
  for (int i = 0; i < 30; ++i) calls.Send(server.stub(), slow);
  // A hundred rows fit.
  ASSERT_TRUE(Eventually([&] { return calls.Ended(grpc::StatusCode::RESOURCE_EXHAUSTED) == 6; }));
  ASSERT_TRUE(server.FinishBatch());
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(server.WaitForInFlight(24));
    const uint64_t before = server.batches();
    const size_t other = calls.Send(server.stub(), Id1Request({9}));
    ASSERT_TRUE(server.WaitForInFlight(25));
    ASSERT_TRUE(server.FinishBatch());
    ASSERT_TRUE(server.FinishBatch());
    ExpectNear(calls.Wait(other).reply.scores(), {9}, 0);
    EXPECT_EQ(server.batches() - before, 2u) << "its own was the next";
    calls.Send(server.stub(), slow);
  }
  server.device().Unblock();
}

// A device that takes its time to load models of two features.
class SlowLoader : public Device {
 public:
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool reached = false;
    bool open = false;
  };

  SlowLoader(std::unique_ptr<Device> device, Gate& gate) : device_(std::move(device)), gate_(gate) {}
  const DeviceInfo& info() const override { return device_->info(); }
  size_t lanes() const override { return device_->lanes(); }
  absl::StatusOr<std::unique_ptr<Lane>> MakeLane() override { return device_->MakeLane(); }
  absl::StatusOr<std::unique_ptr<ResidentModel>> Load(const Model& model) override {
    if (model.features() == 2) {
      std::unique_lock lock(gate_.mutex);
      gate_.reached = true;
      gate_.changed.notify_all();
      gate_.changed.wait(lock, [this] { return gate_.open; });
    }
    return device_->Load(model);
  }

 private:
  const std::unique_ptr<Device> device_;
  Gate& gate_;
};

TEST(PriorityTest, AModelThatIsBeingLoadedHoldsUpNobody) {
  SlowLoader::Gate gate;
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(std::make_unique<SlowLoader>(FakeDevice::Cpu(std::make_shared<FakeDeviceControl>()), gate));
  TestServer server({{"id1", Id1()}, {"late", MakeModel({.features = 2, .weights = {1, 2}})}}, std::move(devices));
  {
    std::unique_lock lock(gate.mutex);
    ASSERT_TRUE(gate.changed.wait_for(lock, std::chrono::seconds(30), [&] { return gate.reached; }));
  }
  for (int i = 0; i < 100; ++i) ExpectNear(server.Scores(Id1Request({static_cast<float>(i)})), {1.0 * i}, 0);
  const grpc::Status early = server.Score(Request("late", PlainRows({{{1, 3.0F}}}))).status;
  ExpectError(early, grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(TellsWhenToRetry(early));
  {
    const std::lock_guard lock(gate.mutex);
    gate.open = true;
    gate.changed.notify_all();
  }
  ASSERT_TRUE(server.server().WaitUntilLoaded(std::chrono::seconds(30)));
  ExpectNear(server.Scores(Request("late", PlainRows({{{1, 3.0F}}}))), {6}, 0);
}

}  // namespace
}  // namespace widelane::test
