// The standard health service, as a probe sees it.

#ifndef WIDELANE_TESTS_SUPPORT_HEALTH_H_
#define WIDELANE_TESTS_SUPPORT_HEALTH_H_

#include <chrono>
#include <memory>
#include <string>

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
  // The latest that was shown; UNKNOWN before the first.
  HealthReply::Status latest() const { return latest_; }
  bool ended() const { return ended_; }

 private:
  GenericStream<HealthRequest, HealthReply> stream_;
  HealthReply::Status latest_ = HealthReply::UNKNOWN;
  bool ended_ = false;
};

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_HEALTH_H_
