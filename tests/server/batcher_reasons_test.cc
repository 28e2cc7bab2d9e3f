// Why batches take no more rows, and what waits.

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/server/batcher_fixture.h"

namespace widelane::test {
namespace {

using std::chrono::milliseconds;

class BatcherReasonsTest : public BatcherTest {
 protected:
  // Of the batches since Start, or since the device was occupied.
  void ExpectClosed(CloseReason reason, uint64_t batches) {
    EXPECT_EQ(observer_.closed[static_cast<size_t>(reason)], batches) << kCloseReasonNames[static_cast<size_t>(reason)];
  }
  void FinishAll() {
    device_->Unblock();
    if (occupant_ != nullptr) ExpectScored(*occupant_);
    for (TestTask* task : tasks_) ExpectScored(*task);
    ExpectClosed(CloseReason::kIdle, idle_);
    uint64_t closed = 0;
    for (const auto& count : observer_.closed) closed += count;
    EXPECT_EQ(closed, observer_.batches);
  }
  void Submit(TestTask& task) {
    batcher_->Submit(task);
    tasks_.push_back(&task);
  }

  std::vector<TestTask*> tasks_;
  uint64_t idle_ = 1;  // the occupant's batch
};

TEST_F(BatcherReasonsTest, ADeviceIsIdle) {
  Start({});
  const auto task = Make({1});
  Submit(*task);
  FinishAll();
}

TEST_F(BatcherReasonsTest, AsManyRowsAsAreSentTogether) {
  Start({.batching = {.max_rows = 2}});
  OccupyDevice();
  const auto fills = Make({1, 2});
  const auto is_cut = Make({3, 4, 5});
  Submit(*fills);
  Submit(*is_cut);
  ExpectClosed(CloseReason::kRows, 0);  // told when they are sent
  ++idle_;                              // the rest of the second
  FinishAll();
  ExpectClosed(CloseReason::kRows, 2);
}

TEST_F(BatcherReasonsTest, AsManyEntriesAsAreSentTogether) {
  Start({.batching = {.max_entries = 2}});
  OccupyDevice();
  const auto task = Make({1, 2});
  Submit(*task);
  FinishAll();
  ExpectClosed(CloseReason::kEntries, 1);
}

TEST_F(BatcherReasonsTest, TheSlabIsFull) {
  Start({.slab_rows = 2});
  OccupyDevice();
  const auto task = Make({1, 2});
  Submit(*task);
  FinishAll();
  ExpectClosed(CloseReason::kRoom, 1);
}

TEST_F(BatcherReasonsTest, ItHasWaitedLongEnough) {
  Start({.slabs = 4});
  OccupyDevice();
  const auto first = Make({1});
  Submit(*first);
  clock_.Advance(BatchingOptions().max_delay);
  const auto second = Make({2});
  Submit(*second);
  ++idle_;
  FinishAll();
  ExpectClosed(CloseReason::kDelay, 1);
}

TEST_F(BatcherReasonsTest, ADeadlineIsNear) {
  Start({.slabs = 4});
  OccupyDevice();
  const auto first = MakeFor(milliseconds(3), {1});
  Submit(*first);
  clock_.Advance(milliseconds(2));
  const auto second = Make({2});
  Submit(*second);
  ++idle_;
  FinishAll();
  ExpectClosed(CloseReason::kDeadline, 1);
}

TEST_F(BatcherReasonsTest, NobodyWouldComeForItLater) {
  Start({});
  device_->Block();
  // The device works for somebody else, whose end the batcher is not told of.
  const std::vector<uint16_t> lengths = {1};
  const std::vector<uint32_t> indices = {0};
  CsrView csr;
  csr.row_lengths = TypedArray::Of(ElementType::kU16, lengths.data(), lengths.size());
  csr.indices = TypedArray::Of(ElementType::kU32, indices.data(), indices.size());
  float score = 0;
  std::thread other([&] { EXPECT_TRUE(engine_->ScoreCsr(model_, csr, {.scores = &score}).ok()); });
  const bool busy = device_->WaitForBatches(loaded_batches_ + 1, std::chrono::minutes(1));
  const auto task = Make({1});
  Submit(*task);
  EXPECT_TRUE(busy);
  idle_ = 0;
  FinishAll();
  other.join();
  ExpectClosed(CloseReason::kLast, 1);
}

TEST_F(BatcherReasonsTest, TellsWhatWaits) {
  Start({.slab_rows = 3, .slabs = 2});
  OccupyDevice();
  EXPECT_EQ(batcher_->waiting().rows, 0u);
  const auto packed = Make({1, 2});
  const auto cut = Make({3, 4, 5});
  Submit(*packed);
  EXPECT_EQ(batcher_->waiting().requests, 1u);
  EXPECT_EQ(batcher_->waiting().rows, 2u);
  // One row joins, two are in line.
  Submit(*cut);
  EXPECT_EQ(batcher_->waiting().requests, 2u);
  EXPECT_EQ(batcher_->waiting().rows, 5u);
  const auto gone = Make({6});
  batcher_->Submit(*gone);
  EXPECT_EQ(batcher_->waiting().requests, 3u);
  batcher_->Withdraw(*gone, absl::CancelledError(""));
  batcher_->Withdraw(*packed, absl::CancelledError(""));
  tasks_ = {cut.get()};
  EXPECT_EQ(batcher_->waiting().requests, 1u);
  EXPECT_EQ(batcher_->waiting().rows, 3u);
  device_->Unblock();
  cut->Wait();
  EXPECT_EQ(batcher_->waiting().requests, 0u);
  EXPECT_EQ(batcher_->waiting().rows, 0u);
}

}  // namespace
}  // namespace widelane::test
