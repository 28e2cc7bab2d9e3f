#include "client/cli/bench_wire.h"

#include <algorithm>
#include <array>
#include <vector>

#include "widelane/v1/scoring.pb.h"

namespace widelane::cli {
namespace {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

bool TakeVarint(absl::string_view& text, uint64_t& value) {
  constexpr size_t kLongest = 10;
  value = 0;
  for (size_t i = 0; i < std::min(text.size(), kLongest); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    value |= uint64_t{byte & 0x7FU} << (7 * i);
    if (byte < 0x80) {
      text.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

bool TakeBytes(absl::string_view& text, uint64_t count, absl::string_view& bytes) {
  bytes = text.substr(0, count);
  text.remove_prefix(bytes.size());
  return true;
}

uint8_t* PutVarint(uint64_t value, uint8_t* at) {
  for (; value >= 0x80; value >>= 7) *at++ = static_cast<uint8_t>(value | 0x80);
  *at++ = static_cast<uint8_t>(value);
  return at;
}

uint8_t* PutTag(uint32_t field, WireType type, uint8_t* at) { return PutVarint(field << 3 | type, at); }

int32_t CodeOf(absl::string_view status) {
  WireField field;
  while (TakeField(status, field)) {
    if (field.number == google::rpc::Status::kCodeFieldNumber) return static_cast<int32_t>(field.value);
  }
  return 0;
}

}  // namespace

bool TakeField(absl::string_view& message, WireField& field) {
  uint64_t tag = 0;
  if (!TakeVarint(message, tag)) return false;
  field = {static_cast<uint32_t>(tag >> 3), 0, {}};
  uint64_t length = 0;
  switch (tag & 7) {
    case kVarint:
      return TakeVarint(message, field.value);
    case kFixed64:
      return TakeBytes(message, sizeof(uint64_t), field.bytes);
    case kFixed32:
      return TakeBytes(message, sizeof(uint32_t), field.bytes);
    case kLength:
      return TakeVarint(message, length) && TakeBytes(message, length, field.bytes);
    default:
      return false;
  }
}

std::optional<uint64_t> RowsOfReply(absl::string_view reply) {
  WireField field;
  while (TakeField(reply, field)) {
    if (field.number == v1::ScoreReply::kRowsFieldNumber) return field.value;
  }
  return std::nullopt;
}

StreamAnswer ReadStreamAnswer(absl::string_view message) {
  StreamAnswer answer;
  WireField field;
  while (TakeField(message, field)) {
    if (field.number == v1::StreamReply::kIdFieldNumber) answer.id = field.value;
    if (field.number == v1::StreamReply::kReplyFieldNumber) answer.reply = field.bytes;
    if (field.number == v1::StreamReply::kErrorFieldNumber) answer.error = CodeOf(field.bytes);
  }
  return answer;
}

grpc::Slice StreamPrefix(uint64_t id, uint32_t timeout_ms, size_t request_bytes) {
  std::array<uint8_t, 40> bytes{};
  uint8_t* at = PutVarint(id, PutTag(v1::StreamRequest::kIdFieldNumber, kVarint, bytes.data()));
  if (timeout_ms > 0) at = PutVarint(timeout_ms, PutTag(v1::StreamRequest::kTimeoutMsFieldNumber, kVarint, at));
  at = PutVarint(request_bytes, PutTag(v1::StreamRequest::kRequestFieldNumber, kLength, at));
  return {bytes.data(), static_cast<size_t>(at - bytes.data())};
}

grpc::Slice HeadOf(const grpc::ByteBuffer& message) {
  grpc::Slice slice;
  if (message.TrySingleSlice(&slice).ok()) return slice;
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok()) return {};
  constexpr size_t kLeast = 64;
  return !slices.empty() && slices.front().size() >= kLeast ? slices.front() : WholeOf(message);
}

grpc::Slice WholeOf(const grpc::ByteBuffer& message) {
  grpc::Slice slice;
  if (!message.DumpToSingleSlice(&slice).ok()) return {};
  return slice;
}

}  // namespace widelane::cli
