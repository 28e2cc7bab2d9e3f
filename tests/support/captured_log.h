// What is logged while it lives, instead of on standard error. One at a time.

#ifndef WIDELANE_TESTS_SUPPORT_CAPTURED_LOG_H_
#define WIDELANE_TESTS_SUPPORT_CAPTURED_LOG_H_

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/observe/log_fields.h"

namespace widelane::test {

class CapturedLog {
 public:
  // Lines are "level message".
  CapturedLog()
      : CapturedLog(std::make_unique<spdlog::pattern_formatter>("%l %v", spdlog::pattern_time_type::utc, "")) {}
  // Lines are what --log-format says.
  explicit CapturedLog(const std::string& format) : CapturedLog(MakeLogFormatter(format)) {}
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  // In their order.
  std::vector<std::string> lines() const { return sink_->lines(); }
  // Those that have `part`.
  std::vector<std::string> LinesWith(const std::string& part) const {
    std::vector<std::string> all = lines();
    const auto lacks = [&part](const std::string& line) { return line.find(part) == std::string::npos; };
    all.erase(std::remove_if(all.begin(), all.end(), lacks), all.end());
    return all;
  }
  int Count(const std::string& part) const { return static_cast<int>(LinesWith(part).size()); }

 private:
  class Sink : public spdlog::sinks::base_sink<std::mutex> {
   public:
    explicit Sink(std::unique_ptr<spdlog::formatter> formatter)
        : spdlog::sinks::base_sink<std::mutex>(std::move(formatter)) {}
    std::vector<std::string> lines() {
      const std::lock_guard lock(mutex_);
      return lines_;
    }

   private:
    void sink_it_(const spdlog::details::log_msg& message) override {
      spdlog::memory_buf_t line;
      formatter_->format(message, line);
      lines_.emplace_back(line.data(), line.size());
    }
    void flush_() override {}

    std::vector<std::string> lines_;
  };

  explicit CapturedLog(std::unique_ptr<spdlog::formatter> formatter)
      : sink_(std::make_shared<Sink>(std::move(formatter))), before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink_));
  }

  const std::shared_ptr<Sink> sink_;
  const std::shared_ptr<spdlog::logger> before_;
};

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_CAPTURED_LOG_H_
