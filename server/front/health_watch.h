// One Watch of the health service, from the moment the server is willing to take one until it has ended.
//
// One write is under way at a time; what changes meanwhile is told after it, the latest only. Holds no thread, and of
// the request no more than whom it is about.

#ifndef WIDELANE_SERVER_FRONT_HEALTH_WATCH_H_
#define WIDELANE_SERVER_FRONT_HEALTH_WATCH_H_

#include <cstdint>
#include <mutex>
#include <optional>

#include "grpc/health/v1/health.pb.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/async_stream.h"
#include "server/front/queue_tag.h"

namespace widelane {

class HealthService;

using HealthStatus = grpc::health::v1::HealthCheckResponse::ServingStatus;

// What callers ask the health of; several names stand for each.
enum class HealthSubject : uint8_t { kUnknown, kLiveness, kReadiness };

class HealthWatch final : public QueueUser {
 public:
  HealthWatch(HealthService& service, grpc::ServerCompletionQueue& queue)
      : service_(service), queue_(queue), writer_(&context_) {}

  // Asks gRPC for the next watch. Ends with the service's Retire.
  void Post();
  void OnEvent(QueueEvent event, bool ok, SoloScorer& solo) override;
  // The service's state has changed, or it drains: tells the client. Any thread, at any time.
  void Tell();

 private:
  // With the lock held.
  void Start();
  void TellOn();

  HealthService& service_;
  grpc::ServerCompletionQueue& queue_;
  QueueTag request_tag_{this, QueueEvent::kRequest};
  QueueTag write_tag_{this, QueueEvent::kWrite};
  QueueTag done_tag_{this, QueueEvent::kDone};
  QueueTag finish_tag_{this, QueueEvent::kFinish};

  std::mutex mutex_;
  grpc::ServerContext context_;
  grpc::ServerAsyncWriter<grpc::health::v1::HealthCheckResponse> writer_;
  grpc::health::v1::HealthCheckRequest request_;
  HealthSubject subject_ = HealthSubject::kUnknown;
  std::optional<HealthStatus> told_;
  int uses_ = 2;          // tags that are out; at first request and done
  bool started_ = false;  // the client is there
  bool writing_ = false;
  bool dead_ = false;  // finished or cancelled: nothing can be written any more
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_HEALTH_WATCH_H_
