#include "tests/support/fake_clock.h"

#include <vector>

namespace widelane::test {

Clock::TimePoint FakeClock::Now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

// A waiter enters itself while it holds its own mutex, in one step with the look at the time. So Advance, which takes
// that mutex after it has moved the time, finds it asleep or gone, never on its way.
void FakeClock::Wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, TimePoint until) {
  std::list<Waiter>::iterator waiter;
  {
    const std::lock_guard own(mutex_);
    if (now_ >= until) return;
    waiter = waiters_.insert(waiters_.end(), {lock.mutex(), &changed, until});
  }
  changed.wait(lock);
  // Who wakes needs the waiter's mutex.
  lock.unlock();
  {
    std::unique_lock own(mutex_);
    woken_.wait(own, [&] { return waiter->wakers == 0; });
    waiters_.erase(waiter);
  }
  lock.lock();
}

void FakeClock::Advance(std::chrono::nanoseconds by) {
  std::vector<std::list<Waiter>::iterator> due;
  {
    const std::lock_guard lock(mutex_);
    now_ += by;
    for (auto waiter = waiters_.begin(); waiter != waiters_.end(); ++waiter) {
      if (waiter->until > now_) continue;
      ++waiter->wakers;
      due.push_back(waiter);
    }
  }
  for (const auto waiter : due) {
    { const std::lock_guard asleep(*waiter->mutex); }
    waiter->changed->notify_all();
  }
  const std::lock_guard lock(mutex_);
  for (const auto waiter : due) --waiter->wakers;
  woken_.notify_all();
}

}  // namespace widelane::test
