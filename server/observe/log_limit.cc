#include "server/observe/log_limit.h"

#include <spdlog/spdlog.h>

#include "server/observe/log_metrics.h"

namespace widelane {

bool LogLimit::Pass(TimePoint now) {
  constexpr int64_t kPeriodNs = std::chrono::nanoseconds(kPeriod).count();
  const int64_t now_ns = std::chrono::nanoseconds(now.time_since_epoch()).count();
  int64_t begin = begin_ns_.load(std::memory_order_relaxed);
  if (now_ns - begin >= kPeriodNs && begin_ns_.compare_exchange_strong(begin, now_ns, std::memory_order_relaxed)) {
    Tell(lines_.exchange(1, std::memory_order_relaxed));
    return true;
  }
  if (lines_.fetch_add(1, std::memory_order_relaxed) < kLines) return true;
  CountLineHeldBack();
  return false;
}

void LogLimit::TellRepeats() { Tell(lines_.exchange(0, std::memory_order_relaxed)); }

void LogLimit::Tell(uint64_t lines) const {
  if (lines > kLines) spdlog::log(level_, "{}: repeated {} times", what_, lines - kLines);
}

}  // namespace widelane
