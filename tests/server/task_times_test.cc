#include "server/batching/task_times.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "engine/src/backends.h"

namespace widelane {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;
using TimePoint = TaskTimes::TimePoint;

TimePoint At(int us) { return TimePoint(std::chrono::hours(1)) + microseconds(us); }

class TaskTimesTest : public ::testing::Test {
 protected:
  // A batch that was on a device from `begun` to `ended`, by a device that measured this.
  const Slab& Batch(int begun, int ended, int launch, int in, int compute, int out) {
    slab_->device = 0;
    slab_->begun = At(begun);
    slab_->ended = At(ended);
    slab_->stages = {};
    slab_->stages[Stage::kLaunch] = microseconds(launch);
    slab_->stages[Stage::kTransferIn] = microseconds(in);
    slab_->stages[Stage::kCompute] = microseconds(compute);
    slab_->stages[Stage::kTransferOut] = microseconds(out);
    return *slab_;
  }
  void Add(const Slab& slab) { times_.Add(slab, BatchShares(slab)); }

  static void ExpectStages(const StageTimes& stages, int queue, int pack, int launch, int in, int compute, int out,
                           int reply) {
    const int expected[] = {queue, pack, launch, in, compute, out, reply};
    for (size_t s = 0; s < kStages; ++s) {
      EXPECT_NEAR(static_cast<double>(stages.time[s].count()), expected[s] * 1e3, 2) << kStageNames[s];
    }
  }
  static nanoseconds Sum(const StageTimes& stages) {
    nanoseconds sum{0};
    for (const nanoseconds time : stages.time) sum += time;
    return sum;
  }

  const std::unique_ptr<HostMemory> memory_ = MakePlainHostMemory();
  const std::unique_ptr<Slab> slab_ =
      *Slab::Create({.rows = 1, .entries = 1, .results = 1, .context_sums = 0}, *memory_);
  TaskTimes times_;
};

TEST_F(TaskTimesTest, QueueIsWhatPassedBeforeADeviceBeganLessPack) {
  times_.pack = microseconds(10);
  Add(Batch(100, 150, 5, 0, 45, 0));
  ExpectStages(RequestStages(times_, At(0), At(157)), 90, 10, 5, 0, 45, 0, 7);
}

TEST_F(TaskTimesTest, WhatNoStageMeasuredIsLaunch) {
  Add(Batch(0, 100, 5, 20, 30, 10));
  ExpectStages(RequestStages(times_, At(0), At(100)), 0, 0, 40, 20, 30, 10, 0);
}

TEST_F(TaskTimesTest, WhatStagesShareCountsForTheEarlierOne) {
  Add(Batch(0, 100, 30, 80, 90, 60));
  ExpectStages(RequestStages(times_, At(0), At(100)), 0, 0, 0, 80, 20, 0, 0);
}

TEST_F(TaskTimesTest, BatchesOneAfterTheOtherAddUp) {
  times_.pack = microseconds(30);
  Add(Batch(20, 50, 0, 10, 20, 0));
  Add(Batch(80, 120, 0, 10, 30, 0));
  ExpectStages(RequestStages(times_, At(0), At(125)), 20, 30, 0, 20, 50, 0, 5);
  EXPECT_EQ(times_.batches, 2u);
}

TEST_F(TaskTimesTest, BatchesSideBySideShareTheTime) {
  Add(Batch(0, 100, 0, 50, 50, 0));
  Add(Batch(0, 100, 0, 50, 50, 0));
  ExpectStages(RequestStages(times_, At(0), At(100)), 0, 0, 0, 50, 50, 0, 0);
}

// The batch that is told of last need not be the one that ended last.
TEST_F(TaskTimesTest, TheFirstBeginAndTheLastEndCount) {
  Add(Batch(50, 90, 0, 0, 40, 0));
  Add(Batch(20, 40, 0, 0, 20, 0));
  ExpectStages(RequestStages(times_, At(0), At(100)), 30, 0, 0, 0, 60, 0, 10);
}

TEST_F(TaskTimesTest, WorkBehindPackingIsNotCountedTwice) {
  times_.pack = microseconds(80);
  Add(Batch(20, 60, 0, 0, 40, 0));
  Add(Batch(60, 100, 0, 0, 40, 0));
  ExpectStages(RequestStages(times_, At(0), At(100)), 0, 80, 0, 0, 20, 0, 0);
}

TEST_F(TaskTimesTest, AlwaysAddsUp) {
  times_.pack = microseconds(7);
  for (int i = 0; i < 50; ++i) {
    Add(Batch(3 * i, 3 * i + 1 + i % 5, i % 3, i % 7, i % 2, i % 4));
    EXPECT_EQ(Sum(RequestStages(times_, At(-9), At(500))), microseconds(509)) << i;
  }
}

}  // namespace
}  // namespace widelane
