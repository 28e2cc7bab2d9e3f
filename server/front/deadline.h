// Deadlines as gRPC tells them, on the clock that the server's schedulers go by.

#ifndef WIDELANE_SERVER_FRONT_DEADLINE_H_
#define WIDELANE_SERVER_FRONT_DEADLINE_H_

#include <chrono>

#include "server/batching/clock.h"

namespace widelane {

// TimePoint::max() for one that is years away, as that of a call without one is.
inline Clock::TimePoint ToSteady(std::chrono::system_clock::time_point deadline, const Clock& clock) {
  if (deadline == std::chrono::system_clock::time_point::max()) return Clock::TimePoint::max();
  constexpr std::chrono::hours kFar{24 * 365};
  const auto now = std::chrono::system_clock::now();
  if (deadline > now + kFar) return Clock::TimePoint::max();
  return clock.Now() + std::chrono::duration_cast<Clock::TimePoint::duration>(deadline - now);
}

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_DEADLINE_H_
