#include "server/batching/clock.h"

namespace widelane {

namespace {

class SteadyClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  void Wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, TimePoint until) override {
    // Libraries turn a time point into one of their own clock, and the largest does not survive that.
    if (until == TimePoint::max()) return changed.wait(lock);
    changed.wait_until(lock, until);
  }
};

}  // namespace

Clock& Clock::Steady() {
  static SteadyClock clock;
  return clock;
}

}  // namespace widelane
