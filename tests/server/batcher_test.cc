#include "server/batching/batcher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/src/backends.h"
#include "tests/support/fake_device.h"
#include "tests/support/models.h"

namespace widelane {
namespace {

using test::FakeDevice;
using test::FakeDeviceControl;

class CountingObserver : public BatchObserver {
 public:
  void OnBatch(const Slab& slab) override {
    ++batches;
    rows += slab.rows();
  }
  void OnSegment(int /*device*/, std::chrono::nanoseconds queue, std::chrono::nanoseconds pack) override {
    EXPECT_GE(queue.count(), 0);
    EXPECT_GE(pack.count(), 0);
    ++segments;
  }
  void OnDeviceFailures(uint64_t /*failures*/) override {}
  std::atomic<uint64_t> batches{0};
  std::atomic<uint64_t> rows{0};
  std::atomic<uint64_t> segments{0};
};

// Runs resumed tasks, as the front end's threads do.
class Resumer {
 public:
  explicit Resumer(Batcher& batcher) : batcher_(batcher), thread_([this] { Run(); }) {}
  ~Resumer() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void Add(ScoreTask& task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(&task);
      changed_.notify_all();  // the task may be done, and all of this gone, as soon as the lock is free
    }
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      ScoreTask* task = tasks_.front();
      tasks_.pop_front();
      lock.unlock();
      batcher_.Continue(*task);
      lock.lock();
    }
  }
  Batcher& batcher_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ScoreTask*> tasks_;
  bool stop_ = false;
  std::thread thread_;
};

// Rows of one entry each of a model with one feature of weight 1: a row scores its value.
class Task : public ScoreTask {
 public:
  Task(std::shared_ptr<const LoadedModel> model, std::vector<float> values, Resumer& resumer, uint32_t index = 0)
      : values_(std::move(values)), indices_(values_.size(), index), lengths_(values_.size(), 1), resumer_(resumer) {
    scores.resize(values_.size(), -1);
    work_.csr.row_lengths = TypedArray::Of(ElementType::kU16, lengths_.data(), lengths_.size());
    work_.csr.indices = TypedArray::Of(ElementType::kU32, indices_.data(), indices_.size());
    work_.csr.values = TypedArray::Of(ElementType::kF32, values_.data(), values_.size());
    work_.shape = {values_.size(), values_.size()};
    work_.model = std::move(model);
    work_.kind.values = Values::kFloat32;
    work_.received = std::chrono::steady_clock::now();
  }

  absl::Status CheckWanted() const override { return unwanted ? absl::CancelledError("gone") : absl::OkStatus(); }
  void OnRows(const Slab& slab, const Segment& segment, uint64_t first_row) override {
    for (uint32_t row = 0; row < segment.rows; ++row) scores[first_row + row] = slab.scores(segment.first_row + row)[0];
  }
  void Resume() override {
    ++resumed;
    resumer_.Add(*this);
  }
  void OnDone(const absl::Status& status) override {
    static std::atomic<uint64_t> ended{0};
    const std::lock_guard lock(mutex_);
    order = ++ended;
    ++done_count;
    result = status;
    batches = times().batches;
    done_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(done_.wait_for(lock, std::chrono::seconds(60), [this] { return done_count > 0; }));
  }
  const std::vector<float>& values() const { return values_; }
  void set_kind(const BatchKind& kind) { work_.kind = kind; }

  std::vector<float> scores;
  absl::Status result;
  int done_count = 0;
  uint64_t order = 0;  // among all tasks that ended
  uint32_t batches = 0;
  std::atomic<int> resumed{0};
  std::atomic<bool> unwanted{false};

 private:
  std::vector<float> values_;
  std::vector<uint32_t> indices_;
  std::vector<uint16_t> lengths_;
  Resumer& resumer_;
  std::mutex mutex_;
  std::condition_variable done_;
};

class BatcherTest : public ::testing::Test {
 protected:
  // On a GPU, so that nothing is scored on the thread that submits it, unless `route` says otherwise.
  void Start(uint32_t slab_rows, size_t slabs, Route route = Route::kCopied) {
    EngineOptions options;
    options.route = route;
    options.measure_costs = false;
    options.slab = {.rows = slab_rows, .entries = slab_rows, .results = slab_rows};
    options.slabs = slabs;
    Backends backends;
    backends.devices.push_back(FakeDevice::Cpu(device_));
    backends.devices.push_back(FakeDevice::Gpu(0, device_));
    auto engine = Engine::CreateWithDevices(options, std::move(backends));
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    model_ = *engine_->Load(test::Id1());
    batcher_ = std::make_unique<Batcher>(*engine_, observer_);
    resumer_ = std::make_unique<Resumer>(*batcher_);
  }
  ~BatcherTest() override {
    device_->Unblock();
    resumer_.reset();
    batcher_.reset();
    model_.reset();
  }
  std::unique_ptr<Task> Make(std::vector<float> values, uint32_t index = 0) {
    return std::make_unique<Task>(model_, std::move(values), *resumer_, index);
  }

  std::shared_ptr<FakeDeviceControl> device_ = std::make_shared<FakeDeviceControl>();
  CountingObserver observer_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<const LoadedModel> model_;
  std::unique_ptr<Batcher> batcher_;
  std::unique_ptr<Resumer> resumer_;
};

TEST_F(BatcherTest, ALoneRequestStartsAtOnce) {
  Start(100, 3);
  auto task = Make({1, 2, 3});
  batcher_->Submit(*task);
  task->Wait();
  EXPECT_TRUE(task->result.ok()) << task->result;
  EXPECT_EQ(task->scores, task->values());
  EXPECT_EQ(observer_.batches, 1u);
}

TEST_F(BatcherTest, RequestsThatComeWhileTheDeviceIsBusyShareABatch) {
  Start(100, 3);
  device_->Block();
  auto first = Make({1});
  batcher_->Submit(*first);
  std::vector<std::unique_ptr<Task>> others;
  // The device may have more than one lane; all but the first few requests gather.
  for (int i = 0; i < 40; ++i) {
    others.push_back(Make({static_cast<float>(i)}));
    batcher_->Submit(*others.back());
  }
  device_->Unblock();
  first->Wait();
  for (const auto& task : others) {
    task->Wait();
    EXPECT_EQ(task->scores, task->values());
  }
  EXPECT_LT(observer_.batches, 20u);
  EXPECT_EQ(observer_.rows, 41u);
}

TEST_F(BatcherTest, RequestsOfAnotherKindGetABatchOfTheirOwn) {
  Start(100, 8);
  device_->Block();
  std::vector<std::unique_ptr<Task>> tasks;
  for (int i = 0; i < 12; ++i) {
    tasks.push_back(Make({1}));
    if (i % 2 == 0) tasks.back()->set_kind({Values::kOnes, 0});
    if (i % 2 == 1) tasks.back()->set_kind({Values::kFloat16, 0});
  }
  for (const auto& task : tasks) batcher_->Submit(*task);
  device_->Unblock();
  for (const auto& task : tasks) {
    task->Wait();
    EXPECT_TRUE(task->result.ok()) << task->result;
    EXPECT_EQ(task->scores, task->values());
  }
  EXPECT_GE(observer_.batches, 2u);
  EXPECT_LT(observer_.batches, 12u);
}

TEST_F(BatcherTest, ALargeRequestIsCutAndPutTogetherAgain) {
  Start(8, 2);
  std::vector<float> values;
  for (int i = 0; i < 1000; ++i) values.push_back(static_cast<float>(i));
  auto task = Make(values);
  batcher_->Submit(*task);
  task->Wait();
  EXPECT_TRUE(task->result.ok()) << task->result;
  EXPECT_EQ(task->scores, values);
  EXPECT_GE(task->batches, 125u);
  EXPECT_EQ(task->done_count, 1);
}

TEST_F(BatcherTest, ABadRowFailsItsOwnRequestOnly) {
  Start(100, 3);
  device_->Block();
  auto first = Make({5});
  auto good = Make({1, 2});
  auto bad = Make({3, 4}, /*index=*/9);
  auto also_good = Make({6});
  for (Task* task : {first.get(), good.get(), bad.get(), also_good.get()}) batcher_->Submit(*task);
  device_->Unblock();
  for (Task* task : {first.get(), good.get(), bad.get(), also_good.get()}) task->Wait();
  EXPECT_EQ(bad->result.code(), absl::StatusCode::kInvalidArgument) << bad->result;
  EXPECT_EQ(good->scores, good->values());
  EXPECT_EQ(also_good->scores, also_good->values());
}

TEST_F(BatcherTest, WaitsInLineWithoutAThreadWhenNoSlabIsFree) {
  Start(4, 1);
  device_->Block();
  std::vector<std::unique_ptr<Task>> tasks;
  for (int i = 0; i < 10; ++i) tasks.push_back(Make({1.0f * i, 2.0f * i, 3.0f * i}));
  for (const auto& task : tasks) batcher_->Submit(*task);  // comes back although nothing can be scored
  int resumed = 0;
  device_->Unblock();
  for (const auto& task : tasks) {
    task->Wait();
    EXPECT_EQ(task->scores, task->values());
    resumed += task->resumed;
  }
  EXPECT_GT(resumed, 0);
}

TEST_F(BatcherTest, AnUnwantedRequestLeavesTheLineToTheNext) {
  Start(4, 1);
  device_->Block();
  std::vector<std::unique_ptr<Task>> tasks;
  for (int i = 0; i < 10; ++i) tasks.push_back(Make({1.0f * i, 2.0f, 3.0f, 4.0f}));
  for (const auto& task : tasks) batcher_->Submit(*task);
  for (size_t i = 1; i < 9; ++i) tasks[i]->unwanted = true;
  device_->Unblock();
  for (const auto& task : tasks) task->Wait();
  EXPECT_EQ(tasks[0]->scores, tasks[0]->values());
  EXPECT_EQ(tasks[9]->scores, tasks[9]->values());
  EXPECT_EQ(tasks[5]->result.code(), absl::StatusCode::kCancelled);
}

// Two models and one slab: whoever waits longest is served next, together with those of its model that fit in as well.
TEST_F(BatcherTest, ASlabGoesToWhoHasWaitedLongest) {
  Start(4, 1);
  const std::shared_ptr<const LoadedModel> other = *engine_->Load(test::Id1());
  device_->Block();
  auto running = Make({1, 2, 3, 4});
  auto first = Make({1, 2});
  auto second = std::make_unique<Task>(other, std::vector<float>{1}, *resumer_);
  auto with_first = Make({3, 4});
  auto third = Make({5, 6, 7});
  auto with_second = std::make_unique<Task>(other, std::vector<float>{2}, *resumer_);
  for (Task* task : {running.get(), first.get(), second.get(), with_first.get(), third.get(), with_second.get()}) {
    batcher_->Submit(*task);
  }
  device_->Unblock();
  for (Task* task : {running.get(), first.get(), second.get(), with_first.get(), third.get(), with_second.get()}) {
    task->Wait();
    EXPECT_EQ(task->scores, task->values());
    EXPECT_LE(task->resumed, 1);
  }
  EXPECT_LT(first->order, second->order);
  EXPECT_LT(with_first->order, second->order);
  EXPECT_LT(second->order, third->order);
  EXPECT_LT(with_second->order, third->order);
  EXPECT_EQ(observer_.batches, 4u);
}

// The slab that an unwanted request would have had is not lost when nothing else is under way.
TEST_F(BatcherTest, AnUnwantedRequestPassesItsTurnOn) {
  Start(4, 1);
  const std::shared_ptr<const LoadedModel> other = *engine_->Load(test::Id1());
  device_->Block();
  auto running = Make({1, 2, 3, 4});
  batcher_->Submit(*running);
  std::vector<std::unique_ptr<Task>> unwanted;
  for (int i = 0; i < 5; ++i) {
    unwanted.push_back(Make({1, 2, 3}));
    batcher_->Submit(*unwanted.back());
    unwanted.back()->unwanted = true;
  }
  Task last(other, {7}, *resumer_);
  batcher_->Submit(last);
  device_->Unblock();
  last.Wait();
  EXPECT_EQ(last.scores, last.values());
  for (const auto& task : unwanted) {
    task->Wait();
    EXPECT_EQ(task->result.code(), absl::StatusCode::kCancelled);
  }
  running->Wait();
}

// A task ends before the engine's thread is back from telling of its batch.
TEST_F(BatcherTest, MayGoAsSoonAsItsTasksAreDone) {
  Start(4, 2);
  for (int i = 0; i < 300; ++i) {
    auto batcher = std::make_unique<Batcher>(*engine_, observer_);
    auto task = Make({1, 2, 3});
    batcher->Submit(*task);
    task->Wait();
    batcher.reset();
    EXPECT_EQ(task->scores, task->values());
  }
}

TEST_F(BatcherTest, AFailingDeviceFailsTheRequestOnce) {
  Start(4, 2);
  device_->set_failure(absl::InternalError("broken"));
  auto task = Make({1, 2, 3, 4, 5, 6, 7, 8, 9});
  batcher_->Submit(*task);
  task->Wait();
  EXPECT_FALSE(task->result.ok());
  EXPECT_EQ(task->done_count, 1);
}

TEST_F(BatcherTest, ManyThreadsGetTheirOwnNumbers) {
  Start(16, 3, Route::kAuto);
  constexpr int kThreads = 6;
  constexpr int kRequests = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int k = 0; k < kRequests; ++k) {
        std::vector<float> values;
        for (int i = 0; i < 1 + k % 40; ++i) values.push_back(static_cast<float>(t * 100000 + k * 100 + i));
        auto task = Make(values, k % 20 == 19 ? 5 : 0);
        batcher_->Submit(*task);
        task->Wait();
        EXPECT_EQ(task->done_count, 1);
        if (k % 20 == 19) {
          EXPECT_EQ(task->result.code(), absl::StatusCode::kInvalidArgument);
        } else {
          ASSERT_EQ(task->scores, values);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace widelane
