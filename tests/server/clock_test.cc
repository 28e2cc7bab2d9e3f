#include "server/batching/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/support/fake_clock.h"

namespace widelane {
namespace {

using std::chrono::milliseconds;

TEST(SteadyClock, ComesBackWhenTheTimeHasCome) {
  Clock& clock = Clock::Steady();
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  const Clock::TimePoint until = clock.Now() + milliseconds(5);
  while (clock.Now() < until) clock.Wait(lock, changed, until);
  EXPECT_TRUE(lock.owns_lock());
}

TEST(FakeClock, StandsStillUnlessMoved) {
  test::FakeClock clock;
  const Clock::TimePoint before = clock.Now();
  EXPECT_EQ(clock.Now(), before);
  clock.Advance(milliseconds(7));
  EXPECT_EQ(clock.Now() - before, milliseconds(7));
}

TEST(FakeClock, WakesWhoseTimeHasComeWheneverItIsMoved) {
  test::FakeClock clock;
  for (int i = 0; i < 300; ++i) {
    std::mutex mutex;
    std::condition_variable changed;
    const Clock::TimePoint until = clock.Now() + milliseconds(1);
    std::thread waiter([&] {
      std::unique_lock lock(mutex);
      while (clock.Now() < until) clock.Wait(lock, changed, until);
    });
    clock.Advance(milliseconds(1));
    waiter.join();
  }
}

TEST(FakeClock, LetsANotificationThrough) {
  test::FakeClock clock;
  std::mutex mutex;
  std::condition_variable changed;
  bool told = false;
  std::thread waiter([&] {
    std::unique_lock lock(mutex);
    while (!told) clock.Wait(lock, changed, Clock::TimePoint::max());
  });
  {
    const std::lock_guard lock(mutex);
    told = true;
  }
  changed.notify_all();
  waiter.join();
}

}  // namespace
}  // namespace widelane
