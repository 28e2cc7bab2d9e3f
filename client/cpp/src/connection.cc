#include "src/connection.h"

#include <grpcpp/client_context.h>

#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/channel.h"

namespace widelane::client {
namespace {

// Of a server that tells no limit.
constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// What the words of gRPC and OpenSSL are likely to mean, where TLS may be why there is no connection.
const char* TlsHint(absl::string_view message, bool tls) {
  // Of a connection that had been there, a close says nothing about TLS.
  const bool closed = absl::StrContains(message, "connections to all backends failing") &&
                      (absl::StrContains(message, "Socket closed") || absl::StrContains(message, "reset by peer"));
  if (!tls) return closed ? "; a server with TLS closes connections without it" : "";
  if (absl::StrContains(message, "wrong version number")) return "; the server speaks no TLS";
  if (absl::StrContains(message, "Ssl handshake failed")) {
    return "; probably none of the root certificates given vouches for the server's certificate, or it has expired";
  }
  // A channel that cannot be made has no addresses.
  if (absl::StrContains(message, "empty address list")) {
    return "; the certificates or the key given are not PEM, or do not fit";
  }
  return closed ? "; the server may want another client certificate, or one at all" : "";
}

}  // namespace

Connection::Connection(std::string address, const ClientOptions& options)
    : address_(std::move(address)),
      options_(options),
      channel_(MakeChannel(address_, options, false)),
      score_channel_(options.check_health ? MakeChannel(address_, options, true) : channel_),
      stub_(v1::Scoring::NewStub(channel_)),
      score_stub_(v1::Scoring::NewStub(score_channel_)) {}

grpc::Status Connection::GetModel(v1::Scoring::Stub& stub, const std::string& model, const std::string& version,
                                  Time deadline, v1::ModelInfo& reply) {
  grpc::ClientContext context;
  context.set_deadline(deadline);
  v1::GetModelRequest request;
  request.set_model(model);
  request.set_version(version);
  return stub.GetModel(&context, request, &reply);
}

// The limit may have been raised since it was asked for, so it is asked for again before a request is refused. The
// same servers are asked as will be called; if none can tell, the call itself finds out.
absl::Status Connection::CheckSize(const ScoreRequest& request, size_t bytes, Time deadline) {
  if (bytes > options_.max_request_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the request has ", bytes, " bytes and this client sends at most ",
                                                     options_.max_request_bytes,
                                                     " (ClientOptions::max_request_bytes); send fewer rows a call"));
  }
  if (bytes <= server_limit_) return absl::OkStatus();
  v1::ModelInfo model;
  const grpc::Status status = GetModel(*score_stub_, request.model, request.version, deadline, model);
  if (!status.ok()) return absl::OkStatus();
  const uint64_t limit = model.max_message_bytes() > 0 ? model.max_message_bytes() : kNoLimit;
  server_limit_ = limit;
  if (bytes <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the request has ", bytes, " bytes and the server takes at most ", limit,
                   " (widelane-server --max-message-bytes); nothing was sent; send fewer rows a call"));
}

absl::Status Connection::Explain(const absl::Status& status) const {
  std::string hint;
  if (absl::StrContains(status.message(), absl::StrCat("message larger than max (")) &&
      absl::StrContains(status.message(), absl::StrCat("vs. ", options_.max_reply_bytes, ")"))) {
    hint = "; the reply is over ClientOptions::max_reply_bytes, raise it or send fewer rows a call";
  } else if (absl::IsUnavailable(status)) {
    hint = TlsHint(status.message(), options_.tls.has_value());
    if (!absl::StrContains(status.message(), address_)) absl::StrAppend(&hint, " (server ", address_, ")");
  }
  if (hint.empty()) return status;
  absl::Status result(status.code(), absl::StrCat(status.message(), hint));
  status.ForEachPayload([&result](auto url, const absl::Cord& payload) { result.SetPayload(url, payload); });
  return result;
}

}  // namespace widelane::client
