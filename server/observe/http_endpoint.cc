#include "server/observe/http_endpoint.h"

#include <civetweb.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/config/address.h"
#include "server/observe/http_answer.h"
#include "server/observe/log.h"
#include "server/observe/trace/trace_endpoint.h"

namespace widelane {

namespace {

constexpr int kOk = 200;
constexpr int kBadRequest = 400;
constexpr int kNotFound = 404;
constexpr int kMethodNotAllowed = 405;
constexpr int kUnavailable = 503;
constexpr char kPrometheus[] = "text/plain; version=0.0.4; charset=utf-8";

// The value of `name` in the query; empty: there is none.
std::string QueryValue(const mg_request_info& request, const char* name) {
  if (request.query_string == nullptr) return "";
  std::array<char, 64> value{};
  const int size =
      mg_get_var(request.query_string, std::strlen(request.query_string), name, value.data(), value.size());
  return size < 0 ? "" : std::string(value.data(), static_cast<size_t>(size));
}

// The library logs to a file or to nowhere; what matters comes back as a status.
int IgnoreMessage(const mg_connection* /*connection*/, const char* /*message*/) { return 1; }

}  // namespace

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Start(const std::string& address, const Metrics& metrics,
                                                                  const ServerState& state, Tracer& tracer) {
  const std::optional<HostPort> wanted = ParseHostPort(address);
  if (!wanted.has_value()) return absl::InvalidArgumentError(absl::StrCat("'", address, "' is not host:port"));
  // Asked first because the library does not tell why it cannot listen.
  if (absl::Status status = CheckCanListen("HTTP", *wanted); !status.ok()) return status;
  const auto numeric = Resolve(*wanted);
  if (!numeric.ok()) return numeric.status();

  auto endpoint = std::unique_ptr<HttpEndpoint>(new HttpEndpoint(metrics, state));
  mg_callbacks callbacks{};
  callbacks.log_message = IgnoreMessage;
  const std::string port = ToText(*numeric);
  const char* options[] = {"listening_ports",
                           port.c_str(),
                           "num_threads",
                           "8",
                           "request_timeout_ms",
                           "2000",
                           "enable_keep_alive",
                           "no",
                           "enable_directory_listing",
                           "no",
                           nullptr};
  mg_init_library(0);
  endpoint->context_ = mg_start(&callbacks, endpoint.get(), options);
  if (endpoint->context_ == nullptr) return absl::UnavailableError(absl::StrCat("cannot listen for HTTP on ", address));
  mg_server_port bound{};
  if (mg_get_server_ports(endpoint->context_, 1, &bound) < 1) return absl::InternalError("the HTTP port is unknown");
  endpoint->numeric_ = {numeric->host, static_cast<uint16_t>(bound.port)};
  endpoint->address_ = ToText({wanted->host, endpoint->numeric_.port});
  mg_set_request_handler(endpoint->context_, "/healthz$", HandleHealth, endpoint.get());
  mg_set_request_handler(endpoint->context_, "/readyz$", HandleReady, endpoint.get());
  mg_set_request_handler(endpoint->context_, "/metrics$", HandleMetrics, endpoint.get());
  mg_set_request_handler(endpoint->context_, "/trace$", HandleTrace, &tracer);
  mg_set_request_handler(endpoint->context_, "/log$", HandleLog, endpoint.get());
  return endpoint;
}

HttpEndpoint::~HttpEndpoint() {
  if (context_ != nullptr) Stop();
  mg_exit_library();
}

// The library looks whether it is to stop only after a connection or two seconds, so it is given connections.
void HttpEndpoint::Stop() {
  constexpr std::chrono::milliseconds kTick{5};
  std::atomic<bool> stopped{false};
  std::thread stopper([&] {
    mg_stop(context_);
    stopped = true;
  });
  while (!stopped) {
    Knock(numeric_);
    std::this_thread::sleep_for(kTick);
  }
  stopper.join();
}

int HttpEndpoint::HandleHealth(mg_connection* connection, void* /*self*/) {
  return AnswerHttp(connection, kOk, kPlainText, "ok\n");
}

int HttpEndpoint::HandleReady(mg_connection* connection, void* self) {
  const std::string reason = static_cast<HttpEndpoint*>(self)->state_.NotReadyReason();
  if (reason.empty()) return AnswerHttp(connection, kOk, kPlainText, "ok\n");
  return AnswerHttp(connection, kUnavailable, kPlainText, reason + "\n");
}

int HttpEndpoint::HandleMetrics(mg_connection* connection, void* self) {
  const Metrics& metrics = static_cast<HttpEndpoint*>(self)->metrics_;
  if (!metrics.on()) return AnswerHttp(connection, kNotFound, kPlainText, "metrics are off (--metrics false)\n");
  return AnswerHttp(connection, kOk, kPrometheus, metrics.Page());
}

int HttpEndpoint::HandleLog(mg_connection* connection, void* /*self*/) {
  const mg_request_info& request = *mg_get_request_info(connection);
  const std::string_view method = request.request_method;
  if (method == "PUT") {
    const std::string level = QueryValue(request, "level");
    if (!SetLogLevel(level)) {
      return AnswerHttp(connection, kBadRequest, kPlainText, "?level= must be trace, debug, info, warning or error\n");
    }
    spdlog::info("the log's level is now {}", level);
  } else if (method != "GET" && method != "HEAD") {
    return AnswerHttp(connection, kMethodNotAllowed, kPlainText, "GET tells the log's level, PUT ?level= changes it\n");
  }
  return AnswerHttp(connection, kOk, kPlainText, LogLevel() + "\n");
}

}  // namespace widelane
