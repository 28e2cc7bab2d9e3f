// Channels to a server and what every call on them needs: deadlines, sizes, and errors in words.

#ifndef WIDELANE_CLIENT_SRC_CONNECTION_H_
#define WIDELANE_CLIENT_SRC_CONNECTION_H_

#include <grpcpp/channel.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "widelane/client/client.h"
#include "widelane/v1/scoring.grpc.pb.h"

namespace widelane::client {

// Thread safe. Does not wait for a connection.
class Connection {
 public:
  using Time = std::chrono::system_clock::time_point;

  // `options` have been checked.
  Connection(std::string address, const ClientOptions& options);

  const std::string& address() const { return address_; }
  const ClientOptions& options() const { return options_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  v1::Scoring::Stub& stub() const { return *stub_; }
  // Only for scoring, since a server that is not ready still tells of its models and its health.
  const std::shared_ptr<grpc::Channel>& score_channel() const { return score_channel_; }
  v1::Scoring::Stub& score_stub() const { return *score_stub_; }

  std::chrono::milliseconds TimeFor(const ScoreRequest& request) const {
    return request.deadline.value_or(options_.deadline);
  }
  static Time DeadlineIn(std::chrono::milliseconds time) { return std::chrono::system_clock::now() + time; }

  static grpc::Status GetModel(v1::Scoring::Stub& stub, const std::string& model, const std::string& version,
                               Time deadline, v1::ModelInfo& reply);

  // RESOURCE_EXHAUSTED if `request`, `bytes` long, is over a limit. The server is asked for its own until `deadline`
  // when it is not known, and again before a request is refused.
  absl::Status CheckSize(const ScoreRequest& request, size_t bytes, Time deadline);

  // Bytes of the largest message that can be sent; 0 when the server has not told its limit yet.
  size_t KnownLimit() const { return std::min<uint64_t>(options_.max_request_bytes, server_limit_); }

  // `status` with what gRPC's own words leave out.
  absl::Status Explain(const absl::Status& status) const;

 private:
  const std::string address_;
  const ClientOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::shared_ptr<grpc::Channel> score_channel_;
  const std::unique_ptr<v1::Scoring::Stub> stub_;
  const std::unique_ptr<v1::Scoring::Stub> score_stub_;
  std::atomic<uint64_t> server_limit_{0};  // bytes; 0: not asked yet
};

}  // namespace widelane::client

#endif  // WIDELANE_CLIENT_SRC_CONNECTION_H_
