// What both ways of starting a server share. Not for others.

#ifndef WIDELANE_SERVER_SERVER_IMPL_H_
#define WIDELANE_SERVER_SERVER_IMPL_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/batching/clock.h"
#include "server/front/front_end.h"
#include "server/models/loader.h"
#include "server/observe/gpu_telemetry.h"
#include "server/observe/http_endpoint.h"
#include "server/observe/trace/tracer.h"
#include "server/server.h"
#include "server/tls/key_pair_watch.h"

namespace widelane {

class Server::Impl {
 public:
  using MakeEngine = std::function<absl::StatusOr<std::unique_ptr<Engine>>()>;

  // The clock outlives the server.
  Impl(const ServerConfig& config, Clock& clock) : config_(config), clock_(clock), tracer_(clock) {}
  ~Impl() { Shutdown(); }

  // Ports, then the engine, then models.
  absl::Status Start(const MakeEngine& make_engine);

  const std::string& grpc_address() const { return grpc_address_; }
  const std::string& http_address() const { return http_address_; }
  const ServerState& state() const { return state_; }
  void Shutdown();
  void HurryShutdown();

 private:
  absl::Status FindAllModels();
  absl::Status OpenPorts();
  absl::Status StartTls();
  absl::Status StartEngine(const MakeEngine& make_engine);
  void StartTelemetry();
  void LogStart() const;
  void WaitForDrainDelay();
  ServerUse Use() const;

  const ServerConfig config_;
  Clock& clock_;
  Metrics metrics_{config_.metrics};
  ServerState state_;
  Tracer tracer_;
  // In the order in which they start; each uses those above it.
  std::unique_ptr<Registry> registry_;
  std::unique_ptr<KeyPairWatch> tls_;  // null: plain text
  std::unique_ptr<HttpEndpoint> http_;
  std::unique_ptr<FrontContext> context_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<GpuTelemetry> telemetry_;  // null without GPUs or metrics
  std::unique_ptr<Batcher> batcher_;
  std::unique_ptr<FrontEnd> front_;
  std::unique_ptr<Loader> loader_;
  std::string grpc_address_;
  std::string http_address_;

  std::mutex mutex_;
  std::condition_variable hurried_;
  std::atomic<bool> hurry_{false};
  bool shut_down_ = false;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_SERVER_IMPL_H_
