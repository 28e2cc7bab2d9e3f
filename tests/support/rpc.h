// Calls on a server: scoring with the generated stubs, any method by its name and raw bytes, health, reflection.

#ifndef WIDELANE_TESTS_SUPPORT_RPC_H_
#define WIDELANE_TESTS_SUPPORT_RPC_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "google/rpc/status.pb.h"
#include "widelane/v1/scoring.grpc.pb.h"

namespace widelane::test {

// A connection of its own to "host:port" that takes replies of any size.
std::shared_ptr<grpc::Channel> Connect(const std::string& address);

// No call of a test waits longer than this.
inline constexpr std::chrono::seconds kCallLimit{120};

struct ScoreResult {
  grpc::Status status;
  v1::ScoreReply reply;
};
ScoreResult Score(v1::Scoring::StubInterface& stub, const v1::ScoreRequest& request,
                  std::chrono::milliseconds deadline = kCallLimit);

// Calls `method` ("/package.Service/Method") with the bytes of a message, well formed or not.
struct RawResult {
  grpc::Status status;
  std::string reply;
};
RawResult CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method, const std::string& request);
inline constexpr const char* kScoreMethod = "/widelane.v1.Scoring/Score";

// The google.rpc.Status that came along; empty if none did.
google::rpc::Status Details(const grpc::Status& status);
// The fields its BadRequest names.
std::vector<std::string> BadFields(const grpc::Status& status);
// Whether it tells when to try again.
bool TellsWhenToRetry(const grpc::Status& status);

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_RPC_H_
