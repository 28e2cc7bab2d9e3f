// The standard health service, as a probe sees it.

#ifndef WIDELANE_TESTS_SUPPORT_HEALTH_H_
#define WIDELANE_TESTS_SUPPORT_HEALTH_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/generic_stream.h"
#include "tests/support/peers.pb.h"

namespace widelane::test {

struct Health {
  grpc::StatusCode code = grpc::StatusCode::UNKNOWN;
  HealthReply::Status status = HealthReply::UNKNOWN;  // with OK
};
Health CheckHealth(const std::shared_ptr<grpc::Channel>& channel, const std::string& service);

// Watch of one name.
class HealthWatch {
 public:
  HealthWatch(const std::shared_ptr<grpc::Channel>& channel, const std::string& service);
  // Whether the stream shows `status` as its latest within the time.
  bool WaitFor(HealthReply::Status status, std::chrono::milliseconds timeout);
  // Whether the stream ends within the time.
  bool WaitForEnd(std::chrono::milliseconds timeout);
  // All that was shown, in order.
  const std::vector<HealthReply::Status>& shown() const { return shown_; }
  bool ended() const { return ended_; }
  // After the end.
  grpc::Status Finish() { return stream_.Finish(); }

 private:
  template <typename Condition>
  bool ReadUntil(const Condition& condition, std::chrono::milliseconds timeout);

  GenericStream<HealthRequest, HealthReply> stream_;
  std::vector<HealthReply::Status> shown_;
  bool ended_ = false;
};

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_HEALTH_H_
