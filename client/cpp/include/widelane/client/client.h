// Scores rows on a Widelane server.
//
//   auto client = widelane::client::Client::Connect("localhost:8600", {});
//   widelane::client::Rows rows;
//   rows.Add({0, 2}, {2.0F, 1.0F});
//   widelane::client::ScoreRequest request;
//   request.model = "clicks";
//   request.rows = rows;
//   auto reply = (*client)->Score(request);  // reply->scores
//
// This header shows no gRPC or protobuf types. All functions of Client may be called from any number of threads; one
// Client (its connections are shared) is enough for a process.

#ifndef WIDELANE_CLIENT_CLIENT_H_
#define WIDELANE_CLIENT_CLIENT_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "widelane/client/rows.h"
#include "widelane/client/score_stream.h"
#include "widelane/client/types.h"

namespace widelane::client {

// All in PEM form.
struct TlsOptions {
  // Who vouches for the server; empty: those that the system trusts.
  std::string root_certificates;
  // For a server that wants clients to have one: this side's, with those up to its root, and its key. Both or neither.
  std::string certificate;
  std::string private_key;
  // The name the server's certificate is to have, where that is not the address's host.
  std::string server_name;
};

struct ClientOptions {
  // Time a call may take where the call does not say.
  std::chrono::milliseconds deadline{30000};
  // Largest request and reply this side handles, in bytes. The server has its own limit for requests.
  size_t max_request_bytes = 256 << 20;
  size_t max_reply_bytes = 256 << 20;
  // Attempts of a call, or of a message of a stream, that ends with UNAVAILABLE, the first included; 1 to 5. Scoring
  // may be repeated safely.
  int max_attempts = 3;
  // Scores only on servers whose health service says SERVING, so that none is asked while it starts or stops. For
  // addresses that stand for several servers ("dns:///name:8600"), over which calls are spread.
  bool check_health = true;
  // Absent: plain text.
  std::optional<TlsOptions> tls;
};

// Errors of all calls carry the server's own message. Besides them: RESOURCE_EXHAUSTED for a request that is over the
// server's limit, and then nothing was sent; INVALID_ARGUMENT for an indptr that makes no rows and for a context_of
// that does not fit rows and contexts; UNAVAILABLE without a connection; DEADLINE_EXCEEDED.
class Client {
 public:
  // Does not wait for a connection. `address` is "host:port", "unix:/path" or another gRPC target. Errors:
  // INVALID_ARGUMENT for options out of range, an empty address, or a TLS certificate without its key.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& address, const ClientOptions& options);
  // Waits for calls of ScoreAsync.
  ~Client();

  absl::StatusOr<ScoreReply> Score(const ScoreRequest& request);
  // Returns once the request is on its way; its rows are not looked at any more. `done` runs once, on a thread of gRPC
  // or, when nothing could be sent, inside the call; it must not block. The first call waits for a GetModel, within its
  // own deadline.
  void ScoreAsync(const ScoreRequest& request, std::function<void(absl::StatusOr<ScoreReply>)> done);

  // For many small requests, which cost less on a stream than as a call each. It opens, and opens again, when there is
  // something to send. May outlive the client.
  std::unique_ptr<ScoreStream> OpenStream(const StreamOptions& options);

  // In order of name and version.
  absl::StatusOr<std::vector<ModelInfo>> ListModels();
  // An empty version: the newest that is available.
  absl::StatusOr<ModelInfo> GetModel(const std::string& model, const std::string& version);

  // Whether the health service says SERVING for `service` ("": the server as a whole). Without waiting for a
  // connection.
  absl::StatusOr<bool> IsServing(const std::string& service);
  // Waits until the server serves. DEADLINE_EXCEEDED, with what stood in the way, when the time is over first.
  absl::Status WaitUntilReady(std::chrono::milliseconds timeout);

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// The field of the request an error is about ("rows.indices[17]"), if the server named one.
std::optional<std::string> ErrorField(const absl::Status& status);
// When to try again, if the server said so.
std::optional<std::chrono::milliseconds> RetryDelay(const absl::Status& status);

}  // namespace widelane::client

#endif  // WIDELANE_CLIENT_CLIENT_H_
