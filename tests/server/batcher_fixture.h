// A batcher over an engine with one fake GPU, on a clock that the test moves, and tasks to give it.

#ifndef WIDELANE_TESTS_SERVER_BATCHER_FIXTURE_H_
#define WIDELANE_TESTS_SERVER_BATCHER_FIXTURE_H_

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "server/batching/batcher.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_device.h"

namespace widelane::test {

class CountingObserver : public BatchObserver {
 public:
  void OnBatch(const Slab& slab) override;
  void OnBatchClosed(CloseReason reason) override { ++closed[static_cast<size_t>(reason)]; }
  void OnDeviceFailures(uint64_t /*failures*/) override {}
  std::atomic<uint64_t> batches{0};
  std::atomic<uint64_t> rows{0};
  std::atomic<uint64_t> most_rows{0};  // of a batch
  std::atomic<uint64_t> most_entries{0};
  std::array<std::atomic<uint64_t>, kCloseReasons> closed{};
};

// Runs resumed tasks, as the front end's threads do.
class Resumer {
 public:
  explicit Resumer(Batcher& batcher) : batcher_(batcher), thread_([this] { Run(); }) {}
  ~Resumer();
  void Add(ScoreTask& task);

 private:
  void Run();
  Batcher& batcher_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ScoreTask*> tasks_;
  bool stop_ = false;
  std::thread thread_;
};

// Rows of a model with one feature of weight 1, one entry each unless said otherwise: a row scores the sum of its
// values.
class TestTask : public ScoreTask {
 public:
  TestTask(std::shared_ptr<const LoadedModel> model, std::vector<float> values, Resumer& resumer,
           Clock::TimePoint received, uint32_t index = 0, uint16_t row_entries = 1);

  void OnRows(const Slab& slab, const Segment& segment, uint64_t first_row) override;
  void Resume() override;
  void OnDone(const absl::Status& status) override;

  // Waits for OnDone, for a minute at most.
  void Wait();
  bool done();
  const std::vector<float>& values() const { return values_; }
  void set_kind(const BatchKind& kind) { work_.kind = kind; }
  void set_priority(Priority priority) { work_.priority = priority; }
  void set_deadline(Clock::TimePoint deadline) { work_.deadline = deadline; }

  std::vector<float> scores;
  std::atomic<int> rows_calls{0};
  absl::Status result;
  int done_count = 0;
  uint64_t order = 0;  // among all tasks that ended
  uint32_t batches = 0;
  uint64_t batch_rows = 0;  // of the last
  std::atomic<int> resumed{0};

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
  struct Setup {
    uint32_t slab_rows = 100;  // and entries
    size_t slabs = 3;
    size_t lanes = 1;
    // To a GPU, so that nothing is scored on the thread that submits it, unless a test wants that.
    Route route = Route::kCopied;
    BatchingOptions batching = {};
  };
  void Start(const Setup& setup);
  ~BatcherTest() override;

  std::unique_ptr<TestTask> Make(std::vector<float> values, uint32_t index = 0);
  std::unique_ptr<TestTask> Make(Priority priority, std::vector<float> values);
  // With a deadline that long from now.
  std::unique_ptr<TestTask> MakeFor(std::chrono::milliseconds time, std::vector<float> values);
  std::unique_ptr<TestTask> MakeOf(const std::shared_ptr<const LoadedModel>& model, std::vector<float> values);
  // Submits a task of one row that keeps the device busy; no batch is done any more unless the test says so.
  void OccupyDevice();
  // The device is done with the batch it has; comes back when that is delivered and, if one waits, the next has begun.
  void FinishBatch();
  void ExpectScored(TestTask& task);
  void ExpectEnded(TestTask& task, absl::StatusCode code);

  const std::shared_ptr<FakeDeviceControl> device_ = std::make_shared<FakeDeviceControl>();
  FakeClock clock_;
  CountingObserver observer_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<const LoadedModel> model_;
  std::unique_ptr<TestTask> occupant_;
  std::unique_ptr<Batcher> batcher_;
  std::unique_ptr<Resumer> resumer_;
  uint64_t loaded_batches_ = 0;  // that the device ran while models were loaded
};

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SERVER_BATCHER_FIXTURE_H_
