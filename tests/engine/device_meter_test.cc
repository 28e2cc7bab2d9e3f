#include "device_meter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace widelane {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using Who = BusyMeter::Who;
using TimePoint = BusyMeter::TimePoint;

// What a meter may be off for each time that begins or ends.
constexpr double kTickNs = 256;

TimePoint At(int ms) { return TimePoint(std::chrono::hours(5)) + milliseconds(ms); }

void ExpectBusy(const BusyMeter& meter, int now_ms, int ms) {
  EXPECT_NEAR(static_cast<double>(meter.Busy(At(now_ms)).count()), ms * 1e6, kTickNs);
}

TEST(BusyMeterTest, CountsOverlappingWorkOnce) {
  BusyMeter meter;
  EXPECT_EQ(meter.Begin(Who::kCaller, At(10)), 0u);
  EXPECT_EQ(meter.Begin(Who::kCaller, At(12)), 1u);
  EXPECT_EQ(meter.Begin(Who::kQueue, At(13)), 0u);
  EXPECT_EQ(meter.callers(), 2u);
  EXPECT_EQ(meter.all(), 3u);
  meter.End(Who::kCaller, At(15));
  meter.End(Who::kCaller, At(16));
  EXPECT_EQ(meter.callers(), 0u);
  EXPECT_EQ(meter.all(), 1u);
  meter.End(Who::kQueue, At(20));
  EXPECT_EQ(meter.all(), 0u);
  ExpectBusy(meter, 100, 10);
}

TEST(BusyMeterTest, KnowsOfWorkThatIsUnderWay) {
  BusyMeter meter;
  ExpectBusy(meter, 10, 0);
  meter.Begin(Who::kQueue, At(10));
  ExpectBusy(meter, 10, 0);
  ExpectBusy(meter, 5000, 4990);
  meter.End(Who::kQueue, At(6000));
  ExpectBusy(meter, 7000, 5990);
}

TEST(BusyMeterTest, AnEndBeforeTheBeginningThatAnotherNotedIsNoTime) {
  BusyMeter meter;
  meter.Begin(Who::kCaller, At(20));
  meter.Begin(Who::kCaller, At(19));
  meter.End(Who::kCaller, At(30));
  meter.End(Who::kCaller, At(19));
  ExpectBusy(meter, 40, 0);
}

// Many short times: what is cut off must not add up.
TEST(BusyMeterTest, ShortTimesAddUpOnAverage) {
  BusyMeter meter;
  constexpr int kTimes = 100'000;
  TimePoint now = At(0);
  for (int i = 0; i < kTimes; ++i) {
    meter.Begin(Who::kCaller, now);
    meter.End(Who::kCaller, now + nanoseconds(700));
    now += nanoseconds(1237);
  }
  EXPECT_NEAR(static_cast<double>(meter.Busy(now).count()), kTimes * 700.0, kTimes * 7.0);
}

TEST(BusyMeterTest, ManyThreadsLeaveNothingBehind) {
  BusyMeter meter;
  const TimePoint begin = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&meter, t] {
      const Who who = t % 2 == 0 ? Who::kCaller : Who::kQueue;
      for (int i = 0; i < 20'000; ++i) {
        meter.Begin(who, std::chrono::steady_clock::now());
        meter.End(who, std::chrono::steady_clock::now());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const TimePoint end = std::chrono::steady_clock::now();
  EXPECT_EQ(meter.all(), 0u);
  EXPECT_GT(meter.Busy(end).count(), 0);
  EXPECT_LE(meter.Busy(end), end - begin + milliseconds(1));
}

}  // namespace
}  // namespace widelane
