// Lines about single requests: slow ones at warning, refused ones at debug. There are none about others.

#ifndef WIDELANE_SERVER_OBSERVE_REQUEST_LOG_H_
#define WIDELANE_SERVER_OBSERVE_REQUEST_LOG_H_

#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/observe/log_limit.h"
#include "server/observe/metrics.h"
#include "widelane/v1/scoring.pb.h"

namespace widelane {

// What is told of a slow request.
struct SlowRequest {
  Method method;
  absl::string_view model;
  absl::string_view version;
  uint64_t rows;
  uint64_t entries;
  absl::string_view priority;
  absl::string_view code;      // of its status
  absl::string_view trace_id;  // of the caller's traceparent; empty: none
  const v1::StageTimes& times;
};

// Any thread.
class RequestLog {
 public:
  // `slow`: how long a request takes that is told of; 0: none is.
  RequestLog(std::chrono::milliseconds slow, Metrics& metrics) : slow_(slow), metrics_(metrics) {}
  ~RequestLog();

  bool IsSlow(std::chrono::nanoseconds time) const { return time >= slow_ && slow_.count() > 0; }
  // Counts a slow request. Whether Tell is wanted: the same was not told too often.
  bool PassSlow();
  static void TellSlow(const SlowRequest& request);
  void OnRefused(const absl::Status& status);

 private:
  const std::chrono::milliseconds slow_;
  Metrics& metrics_;
  LogLimit slow_limit_{"slow request", spdlog::level::warn};
  LogLimit refused_limit_{"refused", spdlog::level::debug};
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_REQUEST_LOG_H_
