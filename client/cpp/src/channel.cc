#include "src/channel.h"

#include <grpcpp/support/channel_arguments.h>

#include "absl/strings/str_cat.h"
#include "src/credentials.h"

namespace widelane::client {
namespace {

// Only UNAVAILABLE is tried again: a full server (RESOURCE_EXHAUSTED) would be kept full by it.
std::string ServiceConfig(const ClientOptions& options, bool check_health) {
  std::string config = R"({"loadBalancingConfig": [{"round_robin": {}}])";
  if (check_health) absl::StrAppend(&config, R"(, "healthCheckConfig": {"serviceName": ""})");
  if (options.max_attempts > 1) {
    absl::StrAppend(
        // A stream sends again by itself what was not answered.
        &config, R"(, "methodConfig": [{"name": [{"service": "widelane.v1.Scoring", "method": "ScoreStream"}]},)",
        R"( {"name": [{"service": "widelane.v1.Scoring"}], "retryPolicy": {)", R"("maxAttempts": )",
        options.max_attempts, R"(, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,)",
        R"( "retryableStatusCodes": ["UNAVAILABLE"]}}], "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1})");
  }
  return absl::StrCat(config, "}");
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, const ClientOptions& options,
                                           bool check_health) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxSendMessageSize(static_cast<int>(options.max_request_bytes));
  arguments.SetMaxReceiveMessageSize(static_cast<int>(options.max_reply_bytes));
  arguments.SetServiceConfigJSON(ServiceConfig(options, check_health));
  // A request that may have to be sent again is kept until then, so that large ones are retried, too.
  arguments.SetInt("grpc.per_rpc_retry_buffer_size", static_cast<int>(options.max_request_bytes));
  // A server that has just come up is found soon.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5000);
  // Notices a peer that is gone without a word, and keeps what stands between from forgetting a connection that is
  // idle. The server permits a ping every 10 s, with and without calls; data need not flow in between.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return MakeChannel(address, options.tls, arguments);
}

}  // namespace widelane::client
