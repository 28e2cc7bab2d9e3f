// Reads a ScoreRequest from its bytes without copying: arrays stay where they came in, and views are made over them.
//
// Unknown fields are skipped; a field that comes twice is merged as protobuf does. All functions may be called from any
// thread.

#ifndef WIDELANE_SERVER_FRONT_SCORE_CODEC_H_
#define WIDELANE_SERVER_FRONT_SCORE_CODEC_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/config/config.h"
#include "widelane/engine/csr.h"

namespace widelane {

// What a reply is to hold, as a set.
enum : uint8_t {
  kReplyScores = 1,
  kReplyRaw = 2,
  kReplyLabels = 4,
  kReplyProbabilities = 8,
  kReplyTopK = 16,
};

struct ScoreRequestView {
  absl::string_view model;
  absl::string_view version;
  CsrView csr;
  uint8_t outputs = kReplyScores;
  uint32_t top_k = 0;
  bool stage_times = false;

  // Arrays that came as plain fields; `csr` points here then. Kept between requests for their memory.
  std::vector<int64_t> plain_indptr;
  std::vector<int64_t> plain_indices;
  std::vector<float> plain_values;
};

// Plain arrays up to this many elements are part of what any request costs; longer ones are paid for.
inline constexpr size_t kFreePlainElements = 1024;

// Asked before plain fields are decoded into that many bytes more than the message has; an error ends the decoding.
using TakeMemory = absl::FunctionRef<absl::Status(uint64_t bytes)>;

// Fills `request` with views into `message`, which must stay where it is as long as they are used.
// Errors: INVALID_ARGUMENT naming the field; RESOURCE_EXHAUSTED naming the limit for more rows or entries than `limits`
// allow; what `take` says. After an error `request` is undefined but may be used again.
absl::Status DecodeScoreRequest(absl::string_view message, const LimitsConfig& limits, TakeMemory take,
                                ScoreRequestView& request);
// The same with all the memory it needs.
absl::Status DecodeScoreRequest(absl::string_view message, const LimitsConfig& limits, ScoreRequestView& request);

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_SCORE_CODEC_H_
