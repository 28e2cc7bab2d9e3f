// DecodeScoreRequest over hostile messages, beside protobuf's own parser, and what the engine makes of the result.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "google/protobuf/stubs/logging.h"
#include "server/front/score_codec.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/packing.h"
#include "widelane/engine/csr.h"
#include "widelane/v1/scoring.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of the exact size, so that the address sanitizer sees a view past the end.
  const std::vector<char> message(data, data + size);
  widelane::LimitsConfig limits;
  limits.max_request_rows = 256;
  limits.max_request_entries = 1024;
  static widelane::ScoreRequestView request;  // used again and again, as the server does
  const absl::Status status =
      widelane::DecodeScoreRequest(absl::string_view(message.data(), message.size()), limits, request);

  static const google::protobuf::LogSilencer silencer;  // it complains of every bad name
  widelane::v1::ScoreRequest parsed;
  const bool is_message = parsed.ParseFromArray(message.data(), static_cast<int>(message.size()));
  if (!status.ok()) {
    FUZZ_CHECK(absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status));
    FUZZ_CHECK(!is_message || !absl::StrContains(status.message(), "garbled"));
    return 0;
  }
  if (is_message) {
    FUZZ_CHECK(request.model == parsed.model());
    FUZZ_CHECK(request.version == parsed.version());
    FUZZ_CHECK(request.top_k == parsed.top_k());
    FUZZ_CHECK(request.stage_times == parsed.stage_times());
    FUZZ_CHECK(request.csr.features.value_or(0) == parsed.rows().features());
    if (parsed.rows().has_indices()) {
      FUZZ_CHECK(request.csr.indices.count * ElementSize(request.csr.indices.type) ==
                 parsed.rows().indices().data().size());
    } else {
      FUZZ_CHECK(request.csr.indices.count == static_cast<size_t>(parsed.rows().plain_indices_size()));
    }
  }
  const auto shape = widelane::CheckShape(request.csr, widelane::test::kFuzzLimits);
  if (shape.ok()) widelane::test::PackIntoEveryModel(request.csr, *shape);
  return 0;
}
