// Time as the server's schedulers see it. Everything that waits for a time asks one of these, so that tests can move
// it.

#ifndef WIDELANE_SERVER_BATCHING_CLOCK_H_
#define WIDELANE_SERVER_BATCHING_CLOCK_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace widelane {

// Any thread.
class Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // The machine's steady clock.
  static Clock& Steady();

  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
  // Waits on `changed`, whose mutex `lock` holds, until it is notified or `until` has come; may return early.
  // TimePoint::max(): only until it is notified.
  virtual void Wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, TimePoint until) = 0;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_BATCHING_CLOCK_H_
