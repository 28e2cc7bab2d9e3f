// A clock that stands still until a test moves it.

#ifndef WIDELANE_TESTS_SUPPORT_FAKE_CLOCK_H_
#define WIDELANE_TESTS_SUPPORT_FAKE_CLOCK_H_

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>

#include "server/batching/clock.h"

namespace widelane::test {

// Any thread.
class FakeClock : public Clock {
 public:
  TimePoint Now() const override;
  void Wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, TimePoint until) override;

  // Moves the time on and wakes everybody whose time has come. Must not hold a mutex that is waited with.
  void Advance(std::chrono::nanoseconds by);

 private:
  struct Waiter {
    std::mutex* mutex;
    std::condition_variable* changed;
    TimePoint until;
    int wakers = 0;  // threads in Advance that use mutex and changed; the waiter stays until there are none
  };

  mutable std::mutex mutex_;
  std::condition_variable woken_;
  TimePoint now_ = TimePoint() + std::chrono::hours(1);
  std::list<Waiter> waiters_;
};

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_FAKE_CLOCK_H_
