// The accounting of one call, whatever method it is: in flight while the scope lives, counted by its code at the end.

#ifndef WIDELANE_SERVER_OBSERVE_CALL_SCOPE_H_
#define WIDELANE_SERVER_OBSERVE_CALL_SCOPE_H_

#include <chrono>
#include <optional>

#include "server/observe/metrics.h"

namespace widelane {

class CallScope {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  CallScope(Metrics& metrics, Method method) : metrics_(metrics), method_(method) { metrics_.OnCallStart(); }
  ~CallScope() { metrics_.OnCallEnd(method_, code_, start_, answered_, sent_); }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  Method method() const { return method_; }
  TimePoint start() const { return start_; }
  // The outcome is known, and told to the caller with this code: from here on it is only sent. Once; returns when.
  TimePoint Answer(int code) {
    code_ = code;
    answered_ = std::chrono::steady_clock::now();
    return answered_;
  }
  // gRPC was done with the reply then; else it is when the scope ends.
  void Sent(TimePoint when) { sent_ = when; }

 private:
  static constexpr int kUnknown = 2;

  Metrics& metrics_;
  const Method method_;
  const TimePoint start_ = std::chrono::steady_clock::now();
  TimePoint answered_ = start_;
  std::optional<TimePoint> sent_;
  int code_ = kUnknown;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_CALL_SCOPE_H_
