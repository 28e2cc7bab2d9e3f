#include "server/front/health_watch.h"

#include "absl/status/status.h"
#include "server/front/health_service.h"
#include "server/front/status_mapping.h"

namespace widelane {

void HealthWatch::Post() {
  context_.AsyncNotifyWhenDone(&done_tag_);
  service_.RequestWatch(&context_, &request_, &writer_, &queue_, &queue_, &request_tag_);
}

void HealthWatch::OnEvent(QueueEvent event, bool ok, SoloScorer& /*solo*/) {
  if (event == QueueEvent::kRequest) {
    // Not ok: the server is stopping, there was no watch, and the done tag never comes.
    if (!ok) return service_.Retire(*this);
    service_.PostWatch(queue_);
  }
  {
    const std::lock_guard lock(mutex_);
    if (event == QueueEvent::kRequest) Start();
    if (event == QueueEvent::kWrite) writing_ = false;
    if (event == QueueEvent::kDone) dead_ = true;
    TellOn();
    if (--uses_ > 0) return;
  }
  service_.Retire(*this);
}

void HealthWatch::Tell() {
  const std::lock_guard lock(mutex_);
  TellOn();
}

void HealthWatch::Start() {
  started_ = true;
  subject_ = HealthService::TakeSubject(request_);
}

void HealthWatch::TellOn() {
  if (!started_ || writing_ || dead_) return;
  // Looked at first: what was set before the drain is still told.
  const bool draining = service_.draining();
  const HealthStatus status = service_.StatusOf(subject_);
  if (status != told_) {
    told_ = status;
    writing_ = true;
    ++uses_;
    grpc::health::v1::HealthCheckResponse response;
    response.set_status(status);
    writer_.Write(response, &write_tag_);
  } else if (draining) {
    dead_ = true;
    ++uses_;
    writer_.Finish(ToGrpcStatus(absl::UnavailableError("the server is stopping")), &finish_tag_);
  }
}

}  // namespace widelane
