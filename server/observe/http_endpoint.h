// The HTTP port: /healthz, /readyz, /metrics, /trace and /log. For operators: whoever reaches it may change the log's
// level.

#ifndef WIDELANE_SERVER_OBSERVE_HTTP_ENDPOINT_H_
#define WIDELANE_SERVER_OBSERVE_HTTP_ENDPOINT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/config/address.h"
#include "server/observe/metrics.h"
#include "server/observe/state.h"
#include "server/observe/trace/tracer.h"

struct mg_connection;
struct mg_context;

namespace widelane {

class HttpEndpoint {
 public:
  // Listens on `address` ("host:port", port 0: any). The others outlive the endpoint.
  // Errors: UNAVAILABLE naming the address and why it cannot be had.
  static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Start(const std::string& address, const Metrics& metrics,
                                                             const ServerState& state, Tracer& tracer);
  ~HttpEndpoint();  // finishes what is being answered

  // With the port that was bound.
  const std::string& address() const { return address_; }

 private:
  HttpEndpoint(const Metrics& metrics, const ServerState& state) : metrics_(metrics), state_(state) {}
  void Stop();
  static int HandleHealth(mg_connection* connection, void* self);
  static int HandleReady(mg_connection* connection, void* self);
  static int HandleMetrics(mg_connection* connection, void* self);
  static int HandleLog(mg_connection* connection, void* self);

  const Metrics& metrics_;
  const ServerState& state_;
  mg_context* context_ = nullptr;
  HostPort numeric_;
  std::string address_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_HTTP_ENDPOINT_H_
