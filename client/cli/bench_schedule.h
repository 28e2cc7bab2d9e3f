// When the calls of an open loop are to be sent.

#ifndef WIDELANE_CLIENT_CLI_BENCH_SCHEDULE_H_
#define WIDELANE_CLIENT_CLI_BENCH_SCHEDULE_H_

#include <chrono>
#include <cmath>
#include <cstdint>

#include "client/cli/bench_draw.h"

namespace widelane::cli {

// Arrivals of a Poisson process: independent callers, `rate` of them a second. The same seed makes the same times.
class PoissonSchedule {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  PoissonSchedule(double rate, uint64_t seed, TimePoint start) : rate_(rate), seed_(seed), start_(start) {}

  TimePoint Next() {
    seconds_ -= std::log(1 - RandomUnit(seed_, position_++)) / rate_;
    return start_ + std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds_));
  }

 private:
  const double rate_;
  const uint64_t seed_;
  const TimePoint start_;
  uint64_t position_ = 0;
  double seconds_ = 0;
};

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_SCHEDULE_H_
