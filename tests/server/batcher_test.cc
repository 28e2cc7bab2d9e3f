// How requests become batches, and batches answers.

#include "server/batching/batcher.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/server/batcher_fixture.h"
#include "tests/support/models.h"

namespace widelane::test {
namespace {

using std::chrono::milliseconds;

std::vector<float> Numbers(size_t count, float first = 0) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = first + static_cast<float>(i);
  return numbers;
}

TEST_F(BatcherTest, ALoneRequestStartsAtOnce) {
  Start({});
  auto task = Make({1, 2, 3});
  batcher_->Submit(*task);
  ExpectScored(*task);
  EXPECT_EQ(observer_.batches, 1u);
}

TEST_F(BatcherTest, ALoneRequestIsScoredOnItsOwnThread) {
  Start({.route = Route::kInline});
  auto task = Make({1, 2, 3});
  batcher_->Submit(*task);
  EXPECT_TRUE(task->done());
  ExpectScored(*task);
}

TEST_F(BatcherTest, ARequestWithoutRowsIsDoneAtOnce) {
  Start({});
  auto task = Make({});
  batcher_->Submit(*task);
  EXPECT_TRUE(task->done());
  EXPECT_TRUE(task->result.ok()) << task->result;
  EXPECT_EQ(observer_.batches, 0u);
}

TEST_F(BatcherTest, RequestsThatComeWhileTheDeviceIsBusyShareABatch) {
  Start({});
  OccupyDevice();
  std::vector<std::unique_ptr<TestTask>> tasks;
  for (int i = 0; i < 40; ++i) tasks.push_back(Make({static_cast<float>(i)}));
  for (const auto& task : tasks) batcher_->Submit(*task);
  device_->Unblock();
  for (const auto& task : tasks) {
    ExpectScored(*task);
    EXPECT_EQ(task->batch_rows, 40u);
  }
}

TEST_F(BatcherTest, ABatchGoesWithoutDelayWhenADeviceIsIdle) {
  Start({.batching = {.max_delay = std::chrono::hours(1)}});
  for (int i = 0; i < 30; ++i) {
    auto task = Make({1});
    batcher_->Submit(*task);
    ExpectScored(*task);  // time stands still
  }
}

TEST_F(BatcherTest, AFullBatchTakesNoMoreAndTheNextRowWaitsForADeviceOnly) {
  Start({.batching = {.max_rows = 64}});
  OccupyDevice();
  auto full = Make(Numbers(64));
  auto one_more = Make({7});
  batcher_->Submit(*full);
  batcher_->Submit(*one_more);
  FinishBatch();
  FinishBatch();
  ExpectScored(*full);
  EXPECT_EQ(full->batches, 1u);
  EXPECT_FALSE(one_more->done());
  FinishBatch();
  ExpectScored(*one_more);
  EXPECT_EQ(one_more->batch_rows, 1u);
}

TEST_F(BatcherTest, ABatchTakesNoMoreWhenItsFirstRowsHaveWaitedLongEnough) {
  Start({.slabs = 4, .batching = {.max_delay = milliseconds(5)}});
  OccupyDevice();
  auto first = Make({1});
  batcher_->Submit(*first);
  clock_.Advance(milliseconds(4));
  auto in_time = Make({2});
  batcher_->Submit(*in_time);
  clock_.Advance(milliseconds(1));
  auto late = Make({3});
  batcher_->Submit(*late);
  device_->Unblock();
  for (TestTask* task : {first.get(), in_time.get(), late.get()}) ExpectScored(*task);
  EXPECT_EQ(first->batch_rows, 2u);
  EXPECT_EQ(in_time->batch_rows, 2u);
  EXPECT_EQ(late->batch_rows, 1u);
}

TEST_F(BatcherTest, ABatchTakesNoMoreShortlyBeforeItsNearestDeadline) {
  Start({.slabs = 4, .batching = {.max_delay = milliseconds(500)}});
  OccupyDevice();
  auto urgent = MakeFor(milliseconds(3), {1});
  batcher_->Submit(*urgent);
  clock_.Advance(milliseconds(2));
  auto late = Make({2});
  batcher_->Submit(*late);
  device_->Unblock();
  ExpectScored(*urgent);
  ExpectScored(*late);
  EXPECT_EQ(urgent->batch_rows, 1u);
}

// Requests of seven models, one at a time each: none waits for company.
TEST_F(BatcherTest, ManyModelsDoNotWaitForOneAnothersBatches) {
  Start({.slabs = 8, .batching = {.max_delay = std::chrono::hours(1)}});
  std::vector<std::shared_ptr<const LoadedModel>> models;
  for (int i = 0; i < 7; ++i) models.push_back(*engine_->Load(Id1()));
  std::vector<std::thread> clients;
  for (int client = 0; client < 8; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 50; ++i) {
        auto task = MakeOf(models[static_cast<size_t>(client) % models.size()], {static_cast<float>(i)});
        batcher_->Submit(*task);
        ExpectScored(*task);
      }
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST_F(BatcherTest, RequestsOfAnotherKindGetABatchOfTheirOwn) {
  Start({.slabs = 8});
  OccupyDevice();
  std::vector<std::unique_ptr<TestTask>> tasks;
  for (int i = 0; i < 12; ++i) {
    tasks.push_back(Make({1}));
    tasks.back()->set_kind({.values = i % 2 == 0 ? Values::kOnes : Values::kFloat16});
    batcher_->Submit(*tasks.back());
  }
  device_->Unblock();
  for (const auto& task : tasks) {
    ExpectScored(*task);
    EXPECT_EQ(task->batch_rows, 6u);
  }
}

TEST_F(BatcherTest, ALargeRequestIsCutAndPutTogetherAgain) {
  Start({.slab_rows = 1000, .batching = {.max_rows = 8}});
  for (const size_t rows : {8, 9, 21, 1000}) {
    auto task = Make(Numbers(rows));
    batcher_->Submit(*task);
    ExpectScored(*task);
    EXPECT_EQ(task->batches, (rows + 7) / 8) << rows;
  }
  EXPECT_EQ(observer_.most_rows, 8u);
}

TEST_F(BatcherTest, ALargeRequestIsCutBySlabsToo) {
  Start({.slab_rows = 8, .slabs = 2});
  auto task = Make(Numbers(1000));
  batcher_->Submit(*task);
  ExpectScored(*task);
  EXPECT_GE(task->batches, 125u);
}

TEST_F(BatcherTest, SmallRequestsBesideALargeOneAreNotStarved) {
  Start({.slab_rows = 8, .slabs = 3});
  OccupyDevice();
  auto large = Make(Numbers(210));
  batcher_->Submit(*large);
  std::vector<std::unique_ptr<TestTask>> small;
  for (int i = 0; i < 10; ++i) {
    small.push_back(Make({static_cast<float>(100 + i)}));
    batcher_->Submit(*small.back());
  }
  device_->Unblock();
  ExpectScored(*large);
  for (const auto& task : small) {
    ExpectScored(*task);
    EXPECT_LT(task->order, large->order);
  }
}

TEST_F(BatcherTest, BatchesAreBoundedByEntries) {
  Start({.batching = {.max_entries = 10}});
  TestTask task(model_, std::vector<float>(40, 1), *resumer_, clock_.Now(), 0, /*row_entries=*/4);
  batcher_->Submit(task);
  task.Wait();
  EXPECT_TRUE(task.result.ok()) << task.result;
  EXPECT_EQ(task.scores, std::vector<float>(10, 4));
  EXPECT_EQ(task.batches, 5u);
  EXPECT_EQ(observer_.most_entries, 8u);
}

TEST_F(BatcherTest, ARowLongerThanABatchGoesAlone) {
  Start({.batching = {.max_entries = 10}});
  TestTask task(model_, std::vector<float>(60, 1), *resumer_, clock_.Now(), 0, /*row_entries=*/30);
  batcher_->Submit(task);
  task.Wait();
  EXPECT_TRUE(task.result.ok()) << task.result;
  EXPECT_EQ(task.scores, std::vector<float>(2, 30));
  EXPECT_EQ(task.batches, 2u);
}

TEST_F(BatcherTest, ABadRowFailsItsOwnRequestOnly) {
  Start({});
  OccupyDevice();
  auto good = Make({1, 2});
  auto bad = Make({3, 4}, /*index=*/9);
  auto also_good = Make({6});
  for (TestTask* task : {good.get(), bad.get(), also_good.get()}) batcher_->Submit(*task);
  EXPECT_TRUE(bad->done());
  device_->Unblock();
  ExpectEnded(*bad, absl::StatusCode::kInvalidArgument);
  ExpectScored(*good);
  ExpectScored(*also_good);
}

TEST_F(BatcherTest, ABatchOfBadRowsOnlyIsNotScored) {
  Start({});
  auto bad = Make({3, 4}, /*index=*/9);
  batcher_->Submit(*bad);
  ExpectEnded(*bad, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(observer_.batches, 0u);
  auto good = Make({1, 2});
  batcher_->Submit(*good);
  ExpectScored(*good);
}

TEST_F(BatcherTest, WaitsInLineWithoutAThreadWhenNoSlabIsFree) {
  Start({.slab_rows = 4, .slabs = 1});
  device_->Block();
  std::vector<std::unique_ptr<TestTask>> tasks;
  for (int i = 0; i < 10; ++i) tasks.push_back(Make({1.0f * i, 2.0f * i, 3.0f * i}));
  for (const auto& task : tasks) batcher_->Submit(*task);  // comes back although nothing can be scored
  int resumed = 0;
  device_->Unblock();
  for (const auto& task : tasks) {
    ExpectScored(*task);
    resumed += task->resumed;
  }
  EXPECT_GT(resumed, 0);
}

// Two models and one slab: whoever waits longest is served next, together with those of its model that fit in as well.
TEST_F(BatcherTest, ASlabGoesToTheModelServedLongestAgo) {
  Start({.slab_rows = 4, .slabs = 1});
  const std::shared_ptr<const LoadedModel> other = *engine_->Load(Id1());
  const std::shared_ptr<const LoadedModel> third_model = *engine_->Load(Id1());
  OccupyDevice();
  auto first = MakeOf(other, {1, 2});
  auto second = MakeOf(third_model, {1});
  auto with_first = MakeOf(other, {3, 4});
  auto third = MakeOf(other, {5, 6, 7});
  auto with_second = MakeOf(third_model, {2});
  const std::vector<TestTask*> tasks = {first.get(), second.get(), with_first.get(), third.get(), with_second.get()};
  for (TestTask* task : tasks) batcher_->Submit(*task);
  device_->Unblock();
  for (TestTask* task : tasks) {
    ExpectScored(*task);
    EXPECT_LE(task->resumed, 1);
  }
  EXPECT_LT(first->order, second->order);
  EXPECT_LT(with_first->order, second->order);
  EXPECT_LT(second->order, third->order);
  EXPECT_LT(with_second->order, third->order);
  EXPECT_EQ(observer_.batches, 4u);
}

// A task ends before the engine's thread is back from telling of its batch.
TEST_F(BatcherTest, MayGoAsSoonAsItsTasksAreDone) {
  Start({.slab_rows = 4, .slabs = 2});
  for (int i = 0; i < 300; ++i) {
    auto batcher = std::make_unique<Batcher>(*engine_, observer_, BatchingOptions(), clock_);
    auto task = Make({1, 2, 3});
    batcher->Submit(*task);
    task->Wait();
    batcher.reset();
    EXPECT_EQ(task->scores, task->values());
  }
}

TEST_F(BatcherTest, AFailingDeviceFailsTheRequestOnce) {
  Start({.slab_rows = 4, .slabs = 2});
  device_->set_failure(absl::InternalError("broken"));
  auto task = Make({1, 2, 3, 4, 5, 6, 7, 8, 9});
  batcher_->Submit(*task);
  ExpectEnded(*task, absl::StatusCode::kInternal);
}

TEST_F(BatcherTest, GoesOnWithoutAGpuWhenTheOnlyOneHasFailed) {
  Start({.slab_rows = 4, .slabs = 3});
  device_->set_failure(absl::InternalError("broken"));
  auto failed = Make({1});
  batcher_->Submit(*failed);
  ExpectEnded(*failed, absl::StatusCode::kInternal);
  device_->set_failure(absl::OkStatus());
  std::vector<std::unique_ptr<TestTask>> tasks;
  for (int i = 0; i < 20; ++i) tasks.push_back(Make({1, 2, 3}));
  for (const auto& task : tasks) batcher_->Submit(*task);
  for (const auto& task : tasks) ExpectScored(*task);
}

}  // namespace
}  // namespace widelane::test
