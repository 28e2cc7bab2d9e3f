// Many threads at once; also run under the thread sanitizer.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/server/batcher_fixture.h"
#include "tests/support/models.h"

namespace widelane::test {
namespace {

using std::chrono::microseconds;

class BatcherStressTest : public BatcherTest {
 protected:
  static constexpr int kThreads = 6;
  static constexpr int kRequests = 400;

  struct Outcomes {
    std::atomic<int> ok{0};
    std::atomic<int> expired{0};
    std::atomic<int> cancelled{0};
    std::atomic<int> invalid{0};
    std::atomic<uint64_t> rows{0};
  };

  void Client(unsigned number, Outcomes& outcomes) {
    std::mt19937 random(number);
    const auto draw = [&random](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
    for (int k = 0; k < kRequests; ++k) {
      std::vector<float> values(static_cast<size_t>(draw(20) == 0 ? 1 + draw(100) : 1 + draw(3)));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(number * 1000000 + k * 1000 + i);
      const bool bad = draw(20) == 0;
      const auto task = std::make_unique<TestTask>(draw(3) == 0 ? other_ : model_, values, *resumer_,
                                                   Clock::Steady().Now(), bad ? 5 : 0);
      task->set_priority(static_cast<Priority>(draw(3)));
      if (draw(10) == 0) task->set_deadline(Clock::Steady().Now() + microseconds(draw(3000)));
      outcomes.rows += values.size();
      Run(*task, draw(10) == 0, draw(200));
      Count(*task, bad, outcomes);
    }
  }

  void Run(TestTask& task, bool withdraw, int after_us) {
    if (!withdraw) {
      steady_->Submit(task);
      return task.Wait();
    }
    std::thread withdrawer([&] {
      std::this_thread::sleep_for(microseconds(after_us));
      steady_->Withdraw(task, absl::CancelledError("gone"));
    });
    steady_->Submit(task);
    task.Wait();
    withdrawer.join();
  }

  static void Count(const TestTask& task, bool bad, Outcomes& outcomes) {
    EXPECT_EQ(task.done_count, 1);
    switch (task.result.code()) {
      case absl::StatusCode::kOk:
        EXPECT_FALSE(bad);
        EXPECT_EQ(task.scores, task.values());
        ++outcomes.ok;
        break;
      case absl::StatusCode::kDeadlineExceeded:
        ++outcomes.expired;
        break;
      case absl::StatusCode::kCancelled:
        ++outcomes.cancelled;
        break;
      default:
        EXPECT_TRUE(bad);
        EXPECT_EQ(task.result.code(), absl::StatusCode::kInvalidArgument) << task.result;
        ++outcomes.invalid;
    }
  }

  void Stress(const Setup& setup) {
    Start(setup);
    other_ = *engine_->Load(Id1());
    resumer_.reset();
    steady_ = std::make_unique<Batcher>(*engine_, observer_, setup.batching, Clock::Steady());
    resumer_ = std::make_unique<Resumer>(*steady_);
    const uint64_t loaded_rows = device_->rows();
    Outcomes outcomes;
    std::vector<std::thread> clients;
    for (unsigned number = 0; number < kThreads; ++number) {
      clients.emplace_back([this, number, &outcomes] { Client(number, outcomes); });
    }
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(outcomes.ok + outcomes.expired + outcomes.cancelled + outcomes.invalid, kThreads * kRequests);
    EXPECT_GT(outcomes.ok, kThreads * kRequests / 2);
    EXPECT_LE(device_->rows() - loaded_rows, outcomes.rows);
    resumer_.reset();
    steady_.reset();
    other_.reset();
  }

  std::shared_ptr<const LoadedModel> other_;
  std::unique_ptr<Batcher> steady_;
};

TEST_F(BatcherStressTest, EveryRequestEndsOnceWithItsOwnNumbersOnTheCallersThreads) {
  Stress({.slab_rows = 16, .slabs = 4, .lanes = 2, .route = Route::kAuto});
}

TEST_F(BatcherStressTest, EveryRequestEndsOnceWithItsOwnNumbersOnAGpu) {
  Stress({.slab_rows = 16, .slabs = 4, .lanes = 2});
}

TEST_F(BatcherStressTest, EveryRequestEndsOnceWithItsOwnNumbersThroughOneSlab) {
  Stress({.slab_rows = 8, .slabs = 1, .lanes = 1, .batching = {.max_rows = 4}});
}

}  // namespace
}  // namespace widelane::test
