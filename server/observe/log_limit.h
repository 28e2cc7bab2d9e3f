// Bounds how often one place of the code writes a line, where what others do decides how often it would.

#ifndef WIDELANE_SERVER_OBSERVE_LOG_LIMIT_H_
#define WIDELANE_SERVER_OBSERVE_LOG_LIMIT_H_

#include <spdlog/common.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace widelane {

// Any thread; takes no lock, and costs a few atomic operations where a line is held back.
class LogLimit {
 public:
  static constexpr uint64_t kLines = 5;
  static constexpr std::chrono::seconds kPeriod{10};
  using TimePoint = std::chrono::steady_clock::time_point;

  // `what` the lines are about, for the line that tells how many were held back.
  LogLimit(std::string what, spdlog::level::level_enum level) : what_(std::move(what)), level_(level) {}
  LogLimit(const LogLimit&) = delete;
  LogLimit& operator=(const LogLimit&) = delete;

  // Whether the line may be written. The first one of a period is preceded by "... repeated N times" if lines were
  // held back before.
  bool Pass(TimePoint now = std::chrono::steady_clock::now());
  // Writes that line now, if there is reason to.
  void TellRepeats();

 private:
  void Tell(uint64_t lines) const;

  const std::string what_;
  const spdlog::level::level_enum level_;
  // Of the current period. A thread that looks while another begins the next one may count in the wrong one.
  std::atomic<int64_t> begin_ns_{INT64_MIN / 2};
  std::atomic<uint64_t> lines_{0};
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_LOG_LIMIT_H_
