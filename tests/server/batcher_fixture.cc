#include "tests/server/batcher_fixture.h"

#include <utility>

#include "engine/src/backends.h"
#include "tests/support/models.h"

namespace widelane::test {

namespace {

void RaiseTo(std::atomic<uint64_t>& most, uint64_t value) {
  uint64_t now = most;
  while (now < value && !most.compare_exchange_weak(now, value)) {
  }
}

}  // namespace

void CountingObserver::OnBatch(const Slab& slab) {
  rows += slab.rows();
  RaiseTo(most_rows, slab.rows());
  RaiseTo(most_entries, slab.entries());
  ++batches;
}

Resumer::~Resumer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Resumer::Add(ScoreTask& task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(&task);
  changed_.notify_all();  // the task may be done, and all of this gone, as soon as the lock is free
}

void Resumer::Run() {
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

TestTask::TestTask(std::shared_ptr<const LoadedModel> model, std::vector<float> values, Resumer& resumer,
                   Clock::TimePoint received, uint32_t index, uint16_t row_entries)
    : values_(std::move(values)),
      indices_(values_.size(), index),
      lengths_(values_.size() / row_entries, row_entries),
      resumer_(resumer) {
  scores.resize(lengths_.size(), -1);
  work_.csr.row_lengths = TypedArray::Of(ElementType::kU16, lengths_.data(), lengths_.size());
  work_.csr.indices = TypedArray::Of(ElementType::kU32, indices_.data(), indices_.size());
  work_.csr.values = TypedArray::Of(ElementType::kF32, values_.data(), values_.size());
  work_.shape = {lengths_.size(), values_.size()};
  work_.model = std::move(model);
  work_.kind.values = Values::kFloat32;
  work_.received = received;
}

void TestTask::OnRows(const Slab& slab, const Segment& segment, uint64_t first_row) {
  ++rows_calls;
  for (uint32_t row = 0; row < segment.rows; ++row) scores[first_row + row] = slab.scores(segment.first_row + row)[0];
}

void TestTask::Resume() {
  ++resumed;
  resumer_.Add(*this);
}

void TestTask::OnDone(const absl::Status& status) {
  static std::atomic<uint64_t> ended{0};
  const std::lock_guard lock(mutex_);
  order = ++ended;
  ++done_count;
  // A copy of its own: how statuses are shared happens inside a library that the thread sanitizer does not see into.
  result = absl::Status(status.code(), status.message());
  batches = times().batches;
  batch_rows = times().batch_rows;
  done_.notify_all();
}

void TestTask::Wait() {
  std::unique_lock lock(mutex_);
  ASSERT_TRUE(done_.wait_for(lock, std::chrono::seconds(60), [this] { return done_count > 0; }));
}

bool TestTask::done() {
  const std::lock_guard lock(mutex_);
  return done_count > 0;
}

void BatcherTest::Start(const Setup& setup) {
  EngineOptions options;
  options.route = setup.route;
  options.measure_costs = false;
  options.slab = {.rows = setup.slab_rows, .entries = setup.slab_rows, .results = setup.slab_rows};
  options.slabs = setup.slabs;
  Backends backends;
  backends.devices.push_back(FakeDevice::Cpu(device_));
  backends.devices.push_back(FakeDevice::Gpu(0, device_, setup.lanes));
  auto engine = Engine::CreateWithDevices(options, std::move(backends));
  ASSERT_TRUE(engine.ok()) << engine.status();
  engine_ = *std::move(engine);
  model_ = *engine_->Load(Id1());
  loaded_batches_ = device_->batches();
  batcher_ = std::make_unique<Batcher>(*engine_, observer_, setup.batching, clock_);
  resumer_ = std::make_unique<Resumer>(*batcher_);
}

BatcherTest::~BatcherTest() {
  device_->Unblock();
  if (occupant_ != nullptr) occupant_->Wait();
  resumer_.reset();
  batcher_.reset();
  model_.reset();
}

std::unique_ptr<TestTask> BatcherTest::Make(std::vector<float> values, uint32_t index) {
  return std::make_unique<TestTask>(model_, std::move(values), *resumer_, clock_.Now(), index);
}

std::unique_ptr<TestTask> BatcherTest::Make(Priority priority, std::vector<float> values) {
  auto task = Make(std::move(values));
  task->set_priority(priority);
  return task;
}

std::unique_ptr<TestTask> BatcherTest::MakeFor(std::chrono::milliseconds time, std::vector<float> values) {
  auto task = Make(std::move(values));
  task->set_deadline(clock_.Now() + time);
  return task;
}

std::unique_ptr<TestTask> BatcherTest::MakeOf(const std::shared_ptr<const LoadedModel>& model,
                                              std::vector<float> values) {
  return std::make_unique<TestTask>(model, std::move(values), *resumer_, clock_.Now());
}

void BatcherTest::OccupyDevice() {
  loaded_batches_ = device_->batches();
  device_->Block();
  occupant_ = Make({1});
  batcher_->Submit(*occupant_);
  ASSERT_TRUE(device_->WaitForBatches(loaded_batches_ + 1, std::chrono::minutes(1)));
}

// The batch that follows has been submitted before the one that is done is delivered.
void BatcherTest::FinishBatch() {
  const uint64_t done = observer_.batches + 1;
  device_->LetThrough(1);
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (observer_.batches < done) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    std::this_thread::yield();
  }
}

void BatcherTest::ExpectScored(TestTask& task) {
  task.Wait();
  EXPECT_TRUE(task.result.ok()) << task.result;
  EXPECT_EQ(task.scores, task.values());
  EXPECT_EQ(task.done_count, 1);
}

void BatcherTest::ExpectEnded(TestTask& task, absl::StatusCode code) {
  task.Wait();
  EXPECT_EQ(task.result.code(), code) << task.result;
  EXPECT_EQ(task.rows_calls, 0);
  EXPECT_EQ(task.done_count, 1);
}

}  // namespace widelane::test
