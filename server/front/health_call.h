// One Check of the health service, from the moment the server is willing to take one until its status is sent.

#ifndef WIDELANE_SERVER_FRONT_HEALTH_CALL_H_
#define WIDELANE_SERVER_FRONT_HEALTH_CALL_H_

#include "grpc/health/v1/health.pb.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/async_unary_call.h"
#include "server/front/queue_tag.h"

namespace widelane {

class HealthService;

class HealthCall final : public QueueUser {
 public:
  HealthCall(HealthService& service, grpc::ServerCompletionQueue& queue)
      : service_(service), queue_(queue), writer_(&context_) {}

  // Asks gRPC for the next call. Ends with the service's Retire.
  void Post();
  void OnEvent(QueueEvent event, bool ok, SoloScorer& solo) override;

 private:
  void Answer();

  HealthService& service_;
  grpc::ServerCompletionQueue& queue_;
  QueueTag request_tag_{this, QueueEvent::kRequest};
  QueueTag finish_tag_{this, QueueEvent::kFinish};
  grpc::ServerContext context_;
  grpc::ServerAsyncResponseWriter<grpc::health::v1::HealthCheckResponse> writer_;
  grpc::health::v1::HealthCheckRequest request_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_HEALTH_CALL_H_
