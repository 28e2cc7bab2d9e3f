// What is asked of a server, and what it answers.

#ifndef WIDELANE_CLIENT_TYPES_H_
#define WIDELANE_CLIENT_TYPES_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "widelane/client/rows.h"

namespace widelane::client {

enum class Output {
  kScores,         // the link of the raw sums
  kRaw,            // the raw sums
  kLabels,         // the label of each row
  kProbabilities,  // in order of the model's labels
  kTopK,           // the best k outputs
};

// Requests of a higher priority go first.
enum class Priority {
  kDefault,  // what the server takes for it: normal
  kHigh,
  kNormal,
  kLow,
};

struct ScoreRequest {
  std::string model;
  std::string version;  // empty: the newest that is available
  // Arrays are only looked at until the call has been made.
  RowsView rows;
  // Features that rows share: each row of this is one context. A row is scored as if the features of its context had
  // been written out in it, with the same bits.
  RowsView contexts;
  // The context of each row. May be empty if there is exactly one: it is that of all rows.
  std::span<const uint32_t> context_of;
  std::vector<Output> outputs = {Output::kScores};
  uint32_t top_k = 0;        // with Output::kTopK
  bool stage_times = false;  // whether the reply tells where the time went
  Priority priority = Priority::kDefault;
  std::optional<std::chrono::milliseconds> deadline;  // else ClientOptions::deadline
};

// Where the time of a request went on the server: the stages add up to the total. Of a batch that it shared with others
// a request has all of the time.
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

}  // namespace widelane::client

#endif  // WIDELANE_CLIENT_TYPES_H_
