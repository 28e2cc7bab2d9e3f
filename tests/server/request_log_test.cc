#include "server/observe/request_log.h"

#include <gtest/gtest.h>

#include <chrono>

#include "absl/status/status.h"
#include "tests/support/captured_log.h"

namespace widelane {
namespace {

using std::chrono::milliseconds;

TEST(RequestLogTest, SlowIsTheThresholdAndLonger) {
  Metrics metrics;
  const RequestLog log(milliseconds(10), metrics);
  EXPECT_FALSE(log.IsSlow(milliseconds(10) - std::chrono::nanoseconds(1)));
  EXPECT_TRUE(log.IsSlow(milliseconds(10)));
  EXPECT_FALSE(RequestLog(milliseconds(0), metrics).IsSlow(std::chrono::hours(1)));
}

TEST(RequestLogTest, CountsEachSlowRequestAndTellsOfSome) {
  const test::CapturedLog captured;
  Metrics metrics;
  uint64_t passed = 0;
  {
    RequestLog log(milliseconds(10), metrics);
    for (int i = 0; i < 100; ++i) passed += log.PassSlow() ? 1 : 0;
  }
  EXPECT_EQ(passed, LogLimit::kLines);
  EXPECT_NE(metrics.Page().find("widelane_slow_requests_total 100"), std::string::npos);
  EXPECT_EQ(captured.Count("slow request: repeated 95 times"), 1);
}

TEST(RequestLogTest, TellsOfRefusalsOnlyWhoAsks) {
  const test::CapturedLog captured;
  Metrics metrics;
  RequestLog log(milliseconds(10), metrics);
  log.OnRefused(absl::InvalidArgumentError("row 3"));
  EXPECT_TRUE(captured.lines().empty());
  spdlog::default_logger()->set_level(spdlog::level::debug);
  for (int i = 0; i < 100; ++i) log.OnRefused(absl::InvalidArgumentError("row 3"));
  EXPECT_EQ(captured.Count("debug refused: INVALID_ARGUMENT: row 3"), static_cast<int>(LogLimit::kLines));
  EXPECT_EQ(captured.lines().size(), LogLimit::kLines);
}

}  // namespace
}  // namespace widelane
