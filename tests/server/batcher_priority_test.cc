// Who goes first, and that everybody goes.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "tests/server/batcher_fixture.h"
#include "tests/support/models.h"

namespace widelane::test {
namespace {

using Tasks = std::vector<std::unique_ptr<TestTask>>;

class BatcherPriorityTest : public BatcherTest {
 protected:
  // How many of `tasks`, all of which are to be scored, ended before `one`, which is done.
  int ScoredBefore(const TestTask& one, const Tasks& tasks) {
    int before = 0;
    for (const auto& task : tasks) {
      ExpectScored(*task);
      before += task->order < one.order ? 1 : 0;
    }
    return before;
  }
};

TEST_F(BatcherPriorityTest, AHighOneIsInTheNextBatch) {
  Start({.slab_rows = 4, .slabs = 4});
  OccupyDevice();
  Tasks low;
  for (int i = 0; i < 100; ++i) {
    low.push_back(Make(Priority::kLow, {1, 2, 3, 4}));
    batcher_->Submit(*low.back());
  }
  auto high = Make(Priority::kHigh, {5, 6, 7, 8});  // nobody joins it
  batcher_->Submit(*high);
  FinishBatch();
  FinishBatch();
  ExpectScored(*high);
  for (const auto& task : low) EXPECT_FALSE(task->done());
  device_->Unblock();
  for (const auto& task : low) ExpectScored(*task);
}

TEST_F(BatcherPriorityTest, AHighOneJoinsAnOpenBatchAndTakesItAlong) {
  Start({.slabs = 5});
  const auto other = *engine_->Load(Id1());
  OccupyDevice();
  auto normal = MakeOf(other, {1});
  auto low = Make(Priority::kLow, {2});
  auto high = Make(Priority::kHigh, {3});
  for (TestTask* task : {normal.get(), low.get(), high.get()}) batcher_->Submit(*task);
  FinishBatch();
  FinishBatch();
  ExpectScored(*high);
  ExpectScored(*low);
  EXPECT_FALSE(normal->done());
  device_->Unblock();
  ExpectScored(*normal);
}

// A batch of high ones is there whenever the device becomes free.
TEST_F(BatcherPriorityTest, ALowBatchIsPassedSevenTimesAtMost) {
  Start({.slabs = 6});
  const auto other = *engine_->Load(Id1());
  OccupyDevice();
  auto low = MakeOf(other, {1});
  low->set_priority(Priority::kLow);
  batcher_->Submit(*low);
  Tasks high;
  for (int i = 0; i < 10; ++i) {
    high.push_back(Make(Priority::kHigh, {static_cast<float>(i)}));
    batcher_->Submit(*high.back());
    FinishBatch();
  }
  device_->Unblock();
  ExpectScored(*low);
  EXPECT_EQ(ScoredBefore(*low, high), 7);
}

TEST_F(BatcherPriorityTest, ALowOneInLineIsPassedAFewTimesOnly) {
  Start({.slab_rows = 4, .slabs = 1});
  OccupyDevice();
  auto low = Make(Priority::kLow, {1, 2, 3, 4});
  batcher_->Submit(*low);
  Tasks high;
  for (int i = 0; i < 40; ++i) {
    high.push_back(Make(Priority::kHigh, {1, 2, 3, 4}));
    batcher_->Submit(*high.back());
  }
  device_->Unblock();
  ExpectScored(*low);
  EXPECT_EQ(ScoredBefore(*low, high), 7);
}

TEST_F(BatcherPriorityTest, LowOnesFinishBesideASteadyHighStream) {
  Start({.slab_rows = 4, .slabs = 3});
  OccupyDevice();
  Tasks low;
  for (int i = 0; i < 5; ++i) {
    low.push_back(Make(Priority::kLow, {1, 2, 3, 4}));
    batcher_->Submit(*low.back());
  }
  Tasks high;
  const auto all_low_done = [&low] {
    for (const auto& task : low) {
      if (!task->done()) return false;
    }
    return true;
  };
  while (!all_low_done() && high.size() < 100) {
    for (int i = 0; i < 2; ++i) {
      high.push_back(Make(Priority::kHigh, {1, 2, 3, 4}));
      batcher_->Submit(*high.back());
    }
    FinishBatch();
  }
  EXPECT_LT(high.size(), 100u);
  device_->Unblock();
  for (const auto& task : low) ExpectScored(*task);
  for (const auto& task : high) ExpectScored(*task);
}

TEST_F(BatcherPriorityTest, ModelsTakeTurns) {
  Start({.slab_rows = 4, .slabs = 8});
  const auto other = *engine_->Load(Id1());
  OccupyDevice();
  Tasks many;
  for (int i = 0; i < 20; ++i) {
    many.push_back(Make({1, 2, 3, 4}));
    batcher_->Submit(*many.back());
  }
  auto few = MakeOf(other, {1});
  batcher_->Submit(*few);
  FinishBatch();
  FinishBatch();
  ExpectScored(*few);
  for (const auto& task : many) EXPECT_FALSE(task->done());
  device_->Unblock();
  for (const auto& task : many) ExpectScored(*task);
}

TEST_F(BatcherPriorityTest, TheLastSlabIsLeftToModelsThatHaveNone) {
  Start({.slab_rows = 4, .slabs = 3});
  const auto other = *engine_->Load(Id1());
  OccupyDevice();  // one slab
  Tasks flood;
  for (int i = 0; i < 6; ++i) {
    flood.push_back(Make({1, 2, 3, 4}));  // the second, and then in line
    batcher_->Submit(*flood.back());
  }
  EXPECT_NE(engine_->TakeSlab(), nullptr);
  auto task = MakeOf(other, {9});
  batcher_->Submit(*task);
  EXPECT_EQ(engine_->TakeSlab(), nullptr);
  EXPECT_EQ(task->resumed, 0);
  device_->Unblock();
  ExpectScored(*task);
  for (const auto& one : flood) ExpectScored(*one);
}

TEST_F(BatcherPriorityTest, TheLastSlabIsLeftToHighOnes) {
  Start({.slab_rows = 4, .slabs = 3});
  OccupyDevice();
  Tasks flood;
  for (int i = 0; i < 6; ++i) {
    flood.push_back(Make({1, 2, 3, 4}));
    batcher_->Submit(*flood.back());
  }
  auto high = Make(Priority::kHigh, {5, 6, 7, 8});  // nobody joins it
  batcher_->Submit(*high);
  FinishBatch();
  FinishBatch();
  ExpectScored(*high);
  device_->Unblock();
  for (const auto& one : flood) ExpectScored(*one);
}

TEST_F(BatcherPriorityTest, WithFewSlabsNoneIsKeptBack) {
  Start({.slab_rows = 4, .slabs = 2});
  OccupyDevice();
  auto task = Make({1, 2, 3, 4});
  batcher_->Submit(*task);
  EXPECT_EQ(engine_->TakeSlab(), nullptr);
  device_->Unblock();
  ExpectScored(*task);
}

}  // namespace
}  // namespace widelane::test
