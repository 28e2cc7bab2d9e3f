// DecodeStreamRequest over hostile messages in blocks, beside protobuf's own parser.

#include <cstddef>
#include <cstdint>

#include "absl/strings/match.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/stubs/logging.h"
#include "server/front/score_codec.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/codec_blocks.h"
#include "widelane/v1/scoring.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static widelane::StreamRequestView message;  // used again and again, as the server does
  widelane::test::Blocks blocks(data, size, static_cast<uint32_t>(size) * 31 + (size > 0 ? data[size - 1] : 0));
  google::protobuf::io::CodedInputStream in(&blocks);
  const auto take = [](uint64_t /*bytes*/) { return absl::OkStatus(); };
  message.error = absl::OkStatus();
  const absl::Status status =
      widelane::DecodeStreamRequest(in, static_cast<int>(size), widelane::test::FuzzCodecLimits(), take, message);

  static const google::protobuf::LogSilencer silencer;  // it complains of every bad name
  widelane::v1::StreamRequest parsed;
  const bool is_message = parsed.ParseFromArray(data, static_cast<int>(size));
  if (!status.ok()) {
    FUZZ_CHECK(absl::IsInvalidArgument(status) && !is_message);
    return 0;
  }
  if (is_message) {
    FUZZ_CHECK(message.id == parsed.id());
    FUZZ_CHECK(message.timeout_ms == parsed.timeout_ms());
  }
  if (!message.error.ok()) {
    FUZZ_CHECK(absl::IsInvalidArgument(message.error) || absl::IsResourceExhausted(message.error));
    FUZZ_CHECK(!is_message || !absl::StrContains(message.error.message(), "garbled"));
    return 0;
  }
  if (is_message) widelane::test::CheckRequest(parsed.request(), message.request);
  widelane::test::UseRequest(message.request);
  return 0;
}
