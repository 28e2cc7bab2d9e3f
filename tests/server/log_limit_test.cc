#include "server/observe/log_limit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/captured_log.h"

namespace widelane {
namespace {

class LogLimitTest : public ::testing::Test {
 protected:
  // How many of so many lines pass.
  uint64_t Pass(uint64_t lines) {
    uint64_t passed = 0;
    for (uint64_t i = 0; i < lines; ++i) passed += limit_.Pass(now_) ? 1 : 0;
    return passed;
  }

  test::CapturedLog log_;
  LogLimit limit_{"a thing", spdlog::level::warn};
  LogLimit::TimePoint now_ = std::chrono::steady_clock::now();
};

TEST_F(LogLimitTest, HoldsBackWhatComesTooOftenAndTellsHowOften) {
  EXPECT_EQ(Pass(100), LogLimit::kLines);
  now_ += LogLimit::kPeriod - std::chrono::nanoseconds(1);
  EXPECT_EQ(Pass(1), 0u);
  EXPECT_TRUE(log_.lines().empty());
  now_ += std::chrono::nanoseconds(1);
  EXPECT_EQ(Pass(1), 1u);
  EXPECT_EQ(log_.lines(), std::vector<std::string>{"warning a thing: repeated 96 times"});
  EXPECT_EQ(Pass(100), LogLimit::kLines - 1);
}

TEST_F(LogLimitTest, SaysNothingWhereNothingWasHeldBack) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(Pass(LogLimit::kLines), LogLimit::kLines);
    now_ += LogLimit::kPeriod;
  }
  limit_.TellRepeats();
  EXPECT_TRUE(log_.lines().empty());
}

TEST_F(LogLimitTest, TellsAtTheEndOnce) {
  Pass(LogLimit::kLines + 3);
  limit_.TellRepeats();
  limit_.TellRepeats();
  EXPECT_EQ(log_.lines(), std::vector<std::string>{"warning a thing: repeated 3 times"});
}

TEST_F(LogLimitTest, ManyThreadsPassNoMore) {
  constexpr int kThreads = 8;
  std::atomic<uint64_t> passed{0};
  std::vector<std::thread> threads;
  Pass(1);
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&] { passed += Pass(1000); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(passed, LogLimit::kLines - 1);
}

}  // namespace
}  // namespace widelane
