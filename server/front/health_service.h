// The standard health service, grpc.health.v1.Health, on the server's completion queues. README.md has what it answers,
// and why it is not the one that gRPC brings.

#ifndef WIDELANE_SERVER_FRONT_HEALTH_SERVICE_H_
#define WIDELANE_SERVER_FRONT_HEALTH_SERVICE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/health/v1/health.pb.h"
#include "grpcpp/completion_queue.h"
#include "server/front/health_call.h"
#include "server/front/health_watch.h"

namespace widelane {

// Any thread.
class HealthService final : public grpc::health::v1::Health::AsyncService {
 public:
  // Begins to take calls that come on `queue`; the gRPC server has been started. The queue outlives the calls, and is
  // served by somebody.
  void Serve(grpc::ServerCompletionQueue& queue);
  // Not ready at first.
  void SetReady(bool ready);
  // Ends watches in order, those to come as well.
  void Drain();
  // The gRPC server has been shut down; waits for all calls.
  void WaitUntilIdle();

  // For calls.
  // Whom the request is about. Empties it: a name may be as long as a message.
  static HealthSubject TakeSubject(grpc::health::v1::HealthCheckRequest& request);
  HealthStatus StatusOf(HealthSubject subject) const;
  bool draining() const { return draining_.load(std::memory_order_acquire); }
  // Asks for one more.
  void PostCall(grpc::ServerCompletionQueue& queue) { Post(calls_, queue); }
  void PostWatch(grpc::ServerCompletionQueue& queue) { Post(watches_, queue); }
  // The call has ended; destroys it.
  void Retire(const HealthCall& call) { Retire(calls_, call); }
  void Retire(const HealthWatch& watch) { Retire(watches_, watch); }

 private:
  template <typename Call>
  using Calls = absl::flat_hash_map<const Call*, std::unique_ptr<Call>>;

  template <typename Call>
  void Post(Calls<Call>& calls, grpc::ServerCompletionQueue& queue);
  template <typename Call>
  void Retire(Calls<Call>& calls, const Call& call);
  void TellWatches();

  std::atomic<bool> ready_{false};
  std::atomic<bool> draining_{false};

  std::mutex mutex_;
  std::condition_variable idle_;
  // Posted or running.
  Calls<HealthCall> calls_;
  Calls<HealthWatch> watches_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_HEALTH_SERVICE_H_
