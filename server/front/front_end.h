// The gRPC side of the server: port, services, health, reflection, completion queues.

#ifndef WIDELANE_SERVER_FRONT_FRONT_END_H_
#define WIDELANE_SERVER_FRONT_FRONT_END_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "server/front/context.h"
#include "server/front/health_service.h"
#include "server/front/score_queue.h"
#include "server/front/scoring_service.h"
#include "server/tls/key_pair_watch.h"

namespace widelane {

class FrontEnd {
 public:
  // Listens and answers; `context` outlives the front end, and so does `tls`, without which (null) all is plain text.
  // Unix sockets are plain text in any case. Not ready in the eyes of the health service until SetReady.
  // Errors: UNAVAILABLE naming the address and why it cannot be had.
  static absl::StatusOr<std::unique_ptr<FrontEnd>> Start(FrontContext& context, const KeyPairWatch* tls);
  ~FrontEnd();  // Shutdown without patience, if that has not happened

  // With the ports that were bound; several separated by commas.
  const std::string& address() const { return address_; }

  // What the health service says of "", "readiness" and the Scoring service; "liveness" is always serving.
  void SetReady(bool ready) { health_.SetReady(ready); }

  // Takes no new calls, waits for those in flight, cancels them when the time is over or `hurry` is set, then closes.
  // Once.
  void Shutdown(std::chrono::milliseconds timeout, const std::atomic<bool>& hurry);

 private:
  explicit FrontEnd(FrontContext& context) : context_(context), service_(context) {}
  absl::Status Listen(const KeyPairWatch* tls);

  FrontContext& context_;
  ScoringService service_;
  HealthService health_;
  std::vector<std::shared_ptr<grpc::ServerCredentials>> credentials_;  // of each port; the server does not keep them
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::unique_ptr<ScoreQueue>> queues_;
  std::string address_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_FRONT_END_H_
