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
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "widelane/client/rows.h"

namespace widelane::client {

struct ClientOptions {
  // Time a call may take where the call does not say.
  std::chrono::milliseconds deadline{30000};
  // Largest request and reply this side handles, in bytes. The server has its own limit for requests.
  size_t max_request_bytes = 256 << 20;
  size_t max_reply_bytes = 256 << 20;
  // Attempts of a call that the server answers with UNAVAILABLE, the first included; 1 to 5. Scoring may be repeated
  // safely.
  int max_attempts = 3;
  // Scores only on servers whose health service says SERVING, so that none is asked while it starts or stops. For
  // addresses that stand for several servers ("dns:///name:8600"), over which calls are spread.
  bool check_health = true;
};

enum class Output {
  kScores,         // the link of the raw sums
  kRaw,            // the raw sums
  kLabels,         // the label of each row
  kProbabilities,  // in order of the model's labels
  kTopK,           // the best k outputs
};

struct ScoreRequest {
  std::string model;
  std::string version;  // empty: the newest that is available
  RowsView rows;        // only looked at until the call has been made
  std::vector<Output> outputs = {Output::kScores};
  uint32_t top_k = 0;        // with Output::kTopK
  bool stage_times = false;  // whether the reply tells where the time went
  std::optional<std::chrono::milliseconds> deadline;
};

// Where the time of a request went on the server. Stages of work shared with other requests are those of the batch.
struct StageTimes {
  std::chrono::nanoseconds queue{}, pack{}, launch{}, transfer_in{}, compute{}, transfer_out{}, reply{};
  std::chrono::nanoseconds total{};  // from the request being in memory to the reply being written
  std::string device;                // "cpu" or a GPU's UUID, of the last batch
  uint32_t batches = 0;              // the request was spread over
  uint64_t batch_rows = 0;           // of the last batch, other requests' included
};

// Arrays are filled if they were asked for, row after row.
struct ScoreReply {
  std::string version;  // that answered
  uint64_t rows = 0;
  uint32_t outputs = 0;               // numbers a row in scores and raw
  std::vector<float> scores;          // [rows][outputs]
  std::vector<double> raw;            // [rows][outputs]
  std::vector<std::string> labels;    // [rows]
  std::vector<float> probabilities;   // [rows][labels]
  std::vector<uint32_t> top_outputs;  // [rows][top_k], best first, equal scores by lower index
  std::vector<float> top_scores;      // [rows][top_k]
  std::string positive_label;         // one output: the label a positive raw sum stands for
  uint64_t ignored_features = 0;      // entries of features the model does not have, where it ignores them
  std::optional<StageTimes> stage_times;
};

struct ModelInfo {
  enum class State { kUnknown, kLoading, kAvailable, kFailed };
  std::string name;
  std::string version;
  State state = State::kUnknown;
  std::string error;  // why it failed
  uint64_t features = 0;
  uint32_t outputs = 0;
  std::string link;  // "identity", "sigmoid", "softmax", "one_vs_rest" or "exp"
  // In order of outputs; for one output {negative, positive}.
  std::vector<std::string> labels;
  std::string weight_type;  // "float32", "float16", "bfloat16" or "int8"
  bool has_probabilities = false;
  bool ignores_unknown_features = false;
  std::string source;                // tool and solver
  std::string digest;                // of the tensors
  std::vector<std::string> devices;  // "cpu" or UUIDs of GPUs
  uint64_t max_message_bytes = 0;    // limits of the server: largest request,
  uint64_t max_rows = 0;             // most rows
  uint64_t max_entries = 0;          // and most entries of one
};

// "loading", "available", "failed" or "unknown".
const char* StateName(ModelInfo::State state);

// Errors of all calls carry the server's own message. Besides them: RESOURCE_EXHAUSTED for a request that is over the
// server's limit, and then nothing was sent; INVALID_ARGUMENT for an indptr that makes no rows; UNAVAILABLE without a
// connection; DEADLINE_EXCEEDED.
class Client {
 public:
  // Does not wait for a connection. `address` is "host:port" or another gRPC target. Errors: INVALID_ARGUMENT for
  // options out of range or an empty address.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& address, const ClientOptions& options);
  // Waits for calls of ScoreAsync.
  ~Client();

  absl::StatusOr<ScoreReply> Score(const ScoreRequest& request);
  // Returns once the request is on its way; its rows are not looked at any more. `done` runs once, on a thread of gRPC
  // or, when nothing could be sent, inside the call; it must not block. The first call waits for a GetModel, within its
  // own deadline.
  void ScoreAsync(const ScoreRequest& request, std::function<void(absl::StatusOr<ScoreReply>)> done);

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
  std::unique_ptr<Impl> impl_;
};

// The field of the request an error is about ("rows.indices[17]"), if the server named one.
std::optional<std::string> ErrorField(const absl::Status& status);
// When to try again, if the server said so.
std::optional<std::chrono::milliseconds> RetryDelay(const absl::Status& status);

}  // namespace widelane::client

#endif  // WIDELANE_CLIENT_CLIENT_H_
