// The whole server in one object, for main and for tests: engine, models, batching, gRPC front end, HTTP endpoint.

#ifndef WIDELANE_SERVER_SERVER_H_
#define WIDELANE_SERVER_SERVER_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config/config.h"

namespace widelane {

class Clock;   // batching/clock.h
class Device;  // engine/src/backend.h

class Server {
 public:
  // Binds both ports, then makes the engine, then loads models on a thread of its own; returns once the ports are open
  // and the engine stands. Errors: UNAVAILABLE naming the address that cannot be had (nothing was loaded then),
  // FAILED_PRECONDITION when GPUs are demanded and there are none, INVALID_ARGUMENT for TLS files of no use.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerConfig& config);
  // The same over devices made elsewhere (tests); `config.engine.devices` is not looked at. The clock, which outlives
  // the server, is what its schedulers go by; null: the machine's.
  static absl::StatusOr<std::unique_ptr<Server>> StartWithDevices(const ServerConfig& config,
                                                                  std::vector<std::unique_ptr<Device>> devices,
                                                                  Clock* clock = nullptr);
  ~Server();  // Shutdown, if that has not happened

  // "host:port" with the port that was bound, for callers that asked for port 0.
  std::string grpc_address() const;
  std::string http_address() const;

  // Waits until every model has been loaded or has failed. False when the time is over first.
  bool WaitUntilLoaded(std::chrono::milliseconds timeout);
  // Whether /readyz says yes: loading is over, a model is available, and the server is not stopping.
  bool Ready() const;

  // Says NOT_SERVING, keeps serving for the drain delay, then finishes what is in flight, at most for the drain
  // timeout, and stops. Any thread but a signal handler; once.
  void Shutdown();
  // Cuts the waits of a running Shutdown short.
  void HurryShutdown();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_SERVER_H_
