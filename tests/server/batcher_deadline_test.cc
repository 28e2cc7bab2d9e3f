// Requests that nobody wants any more: out of time, or withdrawn.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/server/batcher_fixture.h"

namespace widelane::test {
namespace {

using std::chrono::milliseconds;
constexpr absl::StatusCode kExpired = absl::StatusCode::kDeadlineExceeded;
constexpr absl::StatusCode kCancelled = absl::StatusCode::kCancelled;

class BatcherDeadlineTest : public BatcherTest {
 protected:
  static absl::Status Gone() { return absl::CancelledError("gone"); }
  uint64_t RowsStarted() const { return device_->rows() - loaded_rows_; }
  void StartCounting(const Setup& setup) {
    Start(setup);
    loaded_rows_ = device_->rows();
  }
  uint64_t loaded_rows_ = 0;
};

// Batches of one row and 40 ms, twelve requests at once with 100 ms each.
TEST_F(BatcherDeadlineTest, ExpiredRequestsNeverStart) {
  StartCounting({.slabs = 4, .batching = {.max_rows = 1}});
  device_->Block();
  std::vector<std::unique_ptr<TestTask>> tasks;
  for (int i = 0; i < 12; ++i) {
    tasks.push_back(MakeFor(milliseconds(100), {static_cast<float>(i)}));
    batcher_->Submit(*tasks.back());
  }
  for (int i = 0; i < 2; ++i) {
    clock_.Advance(milliseconds(40));
    FinishBatch();
  }
  clock_.Advance(milliseconds(20));
  for (size_t i = 3; i < 12; ++i) ExpectEnded(*tasks[i], kExpired);  // the device is busy yet
  clock_.Advance(milliseconds(20));
  device_->Unblock();
  ExpectScored(*tasks[0]);
  ExpectScored(*tasks[1]);
  ExpectEnded(*tasks[2], kExpired);
  EXPECT_LE(RowsStarted(), 3u);
}

TEST_F(BatcherDeadlineTest, ARequestBehindALongBatchIsToldInTime) {
  StartCounting({});
  OccupyDevice();
  auto task = MakeFor(milliseconds(100), {1});
  batcher_->Submit(*task);
  clock_.Advance(milliseconds(99));
  EXPECT_FALSE(task->done());
  clock_.Advance(milliseconds(1));
  ExpectEnded(*task, kExpired);
  EXPECT_EQ(task->result.message(), "the deadline passed while the request waited");
}

TEST_F(BatcherDeadlineTest, ManyThatAreWithdrawnLeaveTheNextOneNothingToWaitFor) {
  StartCounting({.slab_rows = 4, .slabs = 3});
  OccupyDevice();
  std::vector<std::unique_ptr<TestTask>> tasks;
  for (int i = 0; i < 50; ++i) {
    tasks.push_back(Make({1, 2, 3}));
    batcher_->Submit(*tasks.back());
  }
  for (const auto& task : tasks) batcher_->Withdraw(*task, Gone());
  for (const auto& task : tasks) ExpectEnded(*task, kCancelled);
  auto last = Make({5});
  batcher_->Submit(*last);
  device_->Unblock();
  ExpectScored(*last);
  EXPECT_EQ(RowsStarted(), 2u);
}

TEST_F(BatcherDeadlineTest, ARequestThatArrivesExpiredIsRefusedAtOnce) {
  StartCounting({});
  auto task = MakeFor(milliseconds(0), {1});
  batcher_->Submit(*task);
  EXPECT_TRUE(task->done());
  ExpectEnded(*task, kExpired);
  EXPECT_EQ(RowsStarted(), 0u);
}

TEST_F(BatcherDeadlineTest, AnExpiredNeighbourLeavesTheOthersInTheBatch) {
  StartCounting({});
  OccupyDevice();
  auto before = Make({1, 2});
  auto expires = MakeFor(milliseconds(10), {3});
  auto after = MakeFor(milliseconds(50), {4, 5});
  for (TestTask* task : {before.get(), expires.get(), after.get()}) batcher_->Submit(*task);
  clock_.Advance(milliseconds(10));
  ExpectEnded(*expires, kExpired);
  device_->Unblock();
  ExpectScored(*before);
  ExpectScored(*after);
}

TEST_F(BatcherDeadlineTest, EachDeadlineCountsForItself) {
  StartCounting({.slabs = 1});
  OccupyDevice();
  std::vector<std::unique_ptr<TestTask>> tasks;  // all in line
  for (int i = 0; i < 20; ++i) {
    tasks.push_back(MakeFor(milliseconds(10 + 10 * ((i * 7) % 20)), {1}));
    batcher_->Submit(*tasks.back());
  }
  for (int passed = 1; passed <= 20; ++passed) {
    clock_.Advance(milliseconds(10));
    for (int i = 0; i < 20; ++i) {
      TestTask& task = *tasks[static_cast<size_t>(i)];
      if ((i * 7) % 20 < passed) {
        ExpectEnded(task, kExpired);
      } else {
        EXPECT_FALSE(task.done());
      }
    }
  }
}

TEST_F(BatcherDeadlineTest, ResultsThatComeTooLateAreNotHandedOut) {
  StartCounting({});
  device_->Block();
  auto task = MakeFor(milliseconds(10), {1});
  batcher_->Submit(*task);
  clock_.Advance(milliseconds(11));
  EXPECT_FALSE(task->done()) << "its rows are being scored";
  device_->Unblock();
  ExpectEnded(*task, kExpired);
}

TEST_F(BatcherDeadlineTest, ALargeRequestEndsAsAWhole) {
  StartCounting({.slab_rows = 4, .slabs = 3});
  device_->Block();
  auto task = MakeFor(milliseconds(10), std::vector<float>(100, 1));
  batcher_->Submit(*task);
  auto other = Make({2});
  batcher_->Submit(*other);
  clock_.Advance(milliseconds(10));
  EXPECT_FALSE(task->done());
  device_->Unblock();
  ExpectEnded(*task, kExpired);
  ExpectScored(*other);
  EXPECT_EQ(RowsStarted(), 5u);
}

TEST_F(BatcherDeadlineTest, WithdrawnInLine) {
  StartCounting({.slab_rows = 4, .slabs = 1});
  OccupyDevice();
  auto gone = Make({1, 2, 3, 4});
  auto stays = Make({5});
  batcher_->Submit(*gone);
  batcher_->Submit(*stays);
  batcher_->Withdraw(*gone, Gone());
  EXPECT_TRUE(gone->done());
  ExpectEnded(*gone, kCancelled);
  EXPECT_EQ(gone->result.message(), "gone");
  device_->Unblock();
  ExpectScored(*stays);
  EXPECT_EQ(RowsStarted(), 2u);
}

TEST_F(BatcherDeadlineTest, WithdrawnInAnOpenBatch) {
  StartCounting({});
  OccupyDevice();
  auto gone = Make({1, 2});
  auto stays = Make({5});
  batcher_->Submit(*gone);
  batcher_->Submit(*stays);
  batcher_->Withdraw(*gone, Gone());
  EXPECT_TRUE(gone->done());
  device_->Unblock();
  ExpectEnded(*gone, kCancelled);
  ExpectScored(*stays);
}

TEST_F(BatcherDeadlineTest, ABatchOfWithdrawnRowsOnlyGivesItsSlabToTheNext) {
  StartCounting({.slab_rows = 4, .slabs = 2});
  OccupyDevice();
  auto gone = Make({1, 2, 3, 4});
  auto in_line = Make({5, 6, 7, 8});
  batcher_->Submit(*gone);
  batcher_->Submit(*in_line);
  batcher_->Withdraw(*gone, Gone());
  while (in_line->resumed == 0) std::this_thread::yield();
  device_->Unblock();
  ExpectScored(*in_line);
  EXPECT_EQ(RowsStarted(), 5u);
}

TEST_F(BatcherDeadlineTest, WithdrawnWhileItRuns) {
  StartCounting({});
  device_->Block();
  auto gone = Make({1, 2});
  batcher_->Submit(*gone);
  batcher_->Withdraw(*gone, Gone());
  EXPECT_FALSE(gone->done());
  device_->Unblock();
  ExpectEnded(*gone, kCancelled);
}

TEST_F(BatcherDeadlineTest, WithdrawnWhenDoneChangesNothing) {
  StartCounting({});
  auto task = Make({1, 2});
  batcher_->Submit(*task);
  ExpectScored(*task);
  batcher_->Withdraw(*task, Gone());
  ExpectScored(*task);
}

// From a thread of its own, at any moment.
TEST_F(BatcherDeadlineTest, WithdrawnAtAnyMomentEndsOnce) {
  StartCounting({.slab_rows = 16, .slabs = 3});
  for (int i = 0; i < 500; ++i) {
    auto task = Make(std::vector<float>(static_cast<size_t>(1 + i % 90), 1));
    std::atomic<bool> submitted{false};
    std::thread withdrawer([&] {
      while (!submitted) std::this_thread::yield();
      for (int pause = 0; pause < i % 50; ++pause) std::this_thread::yield();
      batcher_->Withdraw(*task, Gone());
    });
    submitted = true;
    batcher_->Submit(*task);
    task->Wait();
    withdrawer.join();
    EXPECT_EQ(task->done_count, 1);
    if (task->result.ok()) {
      EXPECT_EQ(task->scores, task->values());
    }
  }
}

}  // namespace
}  // namespace widelane::test
