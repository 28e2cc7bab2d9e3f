// The accounting of one call, whatever method it is: in flight while the scope lives, counted by its code at the end.

#ifndef WIDELANE_SERVER_OBSERVE_CALL_SCOPE_H_
#define WIDELANE_SERVER_OBSERVE_CALL_SCOPE_H_

#include <chrono>

#include "server/observe/metrics.h"

namespace widelane {

class CallScope {
 public:
  CallScope(Metrics& metrics, Method method) : metrics_(metrics), method_(method) { metrics_.OnCallStart(); }
  ~CallScope() { metrics_.OnCallEnd(method_, code_, std::chrono::steady_clock::now() - start_); }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  Method method() const { return method_; }
  std::chrono::steady_clock::time_point start() const { return start_; }
  // The code that is sent to the caller.
  void set_code(int code) { code_ = code; }

 private:
  static constexpr int kUnknown = 2;

  Metrics& metrics_;
  const Method method_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int code_ = kUnknown;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_CALL_SCOPE_H_
