#include "server/front/health_service.h"

#include <utility>

#include "absl/strings/string_view.h"
#include "widelane/v1/scoring.grpc.pb.h"

namespace widelane {

namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

HealthSubject Named(absl::string_view name) {
  if (name == "liveness") return HealthSubject::kLiveness;
  if (name.empty() || name == "readiness" || name == v1::Scoring::service_full_name()) return HealthSubject::kReadiness;
  return HealthSubject::kUnknown;
}

}  // namespace

void HealthService::Serve(grpc::ServerCompletionQueue& queue) {
  PostCall(queue);
  PostWatch(queue);
}

void HealthService::SetReady(bool ready) {
  ready_.store(ready, std::memory_order_release);
  TellWatches();
}

void HealthService::Drain() {
  draining_.store(true, std::memory_order_release);
  TellWatches();
}

void HealthService::WaitUntilIdle() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return calls_.empty() && watches_.empty(); });
}

HealthSubject HealthService::TakeSubject(HealthCheckRequest& request) {
  return Named(HealthCheckRequest(std::move(request)).service());
}

HealthStatus HealthService::StatusOf(HealthSubject subject) const {
  switch (subject) {
    case HealthSubject::kLiveness:
      return HealthCheckResponse::SERVING;
    case HealthSubject::kReadiness:
      return ready_.load(std::memory_order_acquire) ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
    case HealthSubject::kUnknown:
      break;
  }
  return HealthCheckResponse::SERVICE_UNKNOWN;
}

template <typename Call>
void HealthService::Post(Calls<Call>& calls, grpc::ServerCompletionQueue& queue) {
  auto call = std::make_unique<Call>(*this, queue);
  Call& posted = *call;
  {
    const std::lock_guard lock(mutex_);
    calls.emplace(&posted, std::move(call));
  }
  posted.Post();
}

template <typename Call>
void HealthService::Retire(Calls<Call>& calls, const Call& call) {
  const std::lock_guard lock(mutex_);
  calls.erase(&call);
  if (calls_.empty() && watches_.empty()) idle_.notify_all();
}

template void HealthService::Post(Calls<HealthCall>&, grpc::ServerCompletionQueue&);
template void HealthService::Post(Calls<HealthWatch>&, grpc::ServerCompletionQueue&);
template void HealthService::Retire(Calls<HealthCall>&, const HealthCall&);
template void HealthService::Retire(Calls<HealthWatch>&, const HealthWatch&);

// A watch that starts in this moment is among them, and sees what was set before.
void HealthService::TellWatches() {
  const std::lock_guard lock(mutex_);
  for (const auto& [watch, owner] : watches_) owner->Tell();
}

}  // namespace widelane
