// DecodeScoreRequest over hostile messages in blocks, beside protobuf's own parser, and what the engine makes of the
// result.

#include <cstddef>
#include <cstdint>

#include "absl/strings/match.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/stubs/logging.h"
#include "server/front/score_codec.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/codec_blocks.h"
#include "widelane/v1/scoring.pb.h"

namespace {

absl::Status Decode(google::protobuf::io::CodedInputStream& in, size_t size, widelane::ScoreRequestView& request) {
  const auto take = [](uint64_t /*bytes*/) { return absl::OkStatus(); };
  return widelane::DecodeScoreRequest(in, static_cast<int>(size), widelane::test::FuzzCodecLimits(), take, request);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using google::protobuf::io::CodedInputStream;
  static widelane::ScoreRequestView request;  // used again and again, as the server does
  widelane::test::Blocks blocks(data, size, static_cast<uint32_t>(size) * 31 + (size > 0 ? data[size - 1] : 0));
  CodedInputStream in(&blocks);
  const absl::Status status = Decode(in, size, request);

  // In one piece it is the same.
  static widelane::ScoreRequestView whole;
  CodedInputStream piece(data, static_cast<int>(size));
  FUZZ_CHECK(Decode(piece, size, whole) == status);

  static const google::protobuf::LogSilencer silencer;  // it complains of every bad name
  widelane::v1::ScoreRequest parsed;
  const bool is_message = parsed.ParseFromArray(data, static_cast<int>(size));
  if (!status.ok()) {
    FUZZ_CHECK(absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status));
    FUZZ_CHECK(!is_message || !absl::StrContains(status.message(), "garbled"));
    return 0;
  }
  if (is_message) widelane::test::CheckRequest(parsed, request);
  widelane::test::UseRequest(request);
  return 0;
}
