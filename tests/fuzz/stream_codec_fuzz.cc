// The requests of a StreamRequests message, hostile and in blocks, beside protobuf's own parser.

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

using google::protobuf::io::CodedInputStream;
using widelane::StreamRequestView;

// `parsed` is null when protobuf cannot read the message around the request.
void CheckRequest(const StreamRequestView& view, const widelane::v1::StreamRequest* parsed) {
  if (parsed != nullptr) {
    FUZZ_CHECK(view.id == parsed->id());
    FUZZ_CHECK(view.timeout_ms == parsed->timeout_ms());
  }
  if (!view.error.ok()) {
    FUZZ_CHECK(absl::IsInvalidArgument(view.error) || absl::IsResourceExhausted(view.error));
    FUZZ_CHECK(parsed == nullptr || !absl::StrContains(view.error.message(), "garbled"));
    return;
  }
  if (parsed != nullptr) widelane::test::CheckRequest(parsed->request(), view.request);
  widelane::test::UseRequest(view.request);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const google::protobuf::LogSilencer silencer;  // it complains of every bad name
  widelane::v1::StreamRequests parsed;
  const bool is_message = parsed.ParseFromArray(data, static_cast<int>(size));

  static StreamRequestView view;  // used again and again, as the server does
  widelane::test::Blocks blocks(data, size, static_cast<uint32_t>(size) * 31 + (size > 0 ? data[size - 1] : 0));
  CodedInputStream in(&blocks);
  widelane::StreamRequestsReader reader(in, static_cast<int>(size));
  int count = 0;
  while (reader.Next()) {
    view.error = absl::OkStatus();
    const bool is_last = reader.is_last();
    reader.Read([](CodedInputStream& at, int bytes) {
      const auto take = [](uint64_t /*bytes*/) { return absl::OkStatus(); };
      widelane::DecodeStreamRequest(at, bytes, widelane::test::FuzzCodecLimits(), take, view);
    });
    FUZZ_CHECK(is_last == (in.BytesUntilLimit() == 0));
    FUZZ_CHECK(!is_message || count < parsed.requests_size());
    CheckRequest(view, is_message ? &parsed.requests(count) : nullptr);
    ++count;
  }
  FUZZ_CHECK(!is_message || (!reader.broken() && count == parsed.requests_size()));
  return 0;
}
