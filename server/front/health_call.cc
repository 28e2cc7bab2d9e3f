#include "server/front/health_call.h"

#include "absl/status/status.h"
#include "server/front/health_service.h"
#include "server/front/status_mapping.h"

namespace widelane {

void HealthCall::Post() { service_.RequestCheck(&context_, &request_, &writer_, &queue_, &queue_, &request_tag_); }

void HealthCall::OnEvent(QueueEvent event, bool ok, SoloScorer& /*solo*/) {
  // What was asked for and did not come, since the server is stopping, ends like what is finished.
  if (event != QueueEvent::kRequest || !ok) return service_.Retire(*this);
  service_.PostCall(queue_);
  Answer();
}

void HealthCall::Answer() {
  const HealthSubject subject = HealthService::TakeSubject(request_);
  if (subject == HealthSubject::kUnknown) {
    return writer_.FinishWithError(ToGrpcStatus(absl::NotFoundError("unknown service")), &finish_tag_);
  }
  grpc::health::v1::HealthCheckResponse response;
  response.set_status(service_.StatusOf(subject));
  writer_.Finish(response, grpc::Status::OK, &finish_tag_);
}

}  // namespace widelane
