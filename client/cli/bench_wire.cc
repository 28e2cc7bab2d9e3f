#include "client/cli/bench_wire.h"

#include <algorithm>
#include <array>

#include "widelane/v1/scoring.pb.h"

namespace widelane::cli {
namespace {

// A message takes so much, and a large request alone.
constexpr size_t kMostBatchBytes = size_t{256} << 10;
constexpr size_t kMostBatchRequests = 256;
// Copying so few bytes costs less than handing on a reference to them.
constexpr size_t kMostCopied = 1024;

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

void ReadStatus(absl::string_view status, StreamAnswer& answer) {
  answer.error = 0;
  WireField field;
  while (TakeField(status, field)) {
    if (field.number == google::rpc::Status::kCodeFieldNumber) answer.error = static_cast<int32_t>(field.value);
    if (field.number == google::rpc::Status::kMessageFieldNumber) answer.message = field.bytes;
  }
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

StreamAnswer ReadStreamAnswer(absl::string_view reply) {
  StreamAnswer answer;
  WireField field;
  while (TakeField(reply, field)) {
    if (field.number == v1::StreamReply::kIdFieldNumber) answer.id = field.value;
    if (field.number == v1::StreamReply::kReplyFieldNumber) answer.reply = field.bytes;
    if (field.number == v1::StreamReply::kErrorFieldNumber) ReadStatus(field.bytes, answer);
  }
  return answer;
}

void StreamBatch::Add(uint64_t id, uint32_t timeout_ms, const grpc::Slice& request) {
  // The size of a StreamRequest goes before it, so its fields are written first.
  constexpr size_t kMostFieldBytes = 40;
  std::array<uint8_t, kMostFieldBytes> fields;
  uint8_t* end = PutVarint(id, PutTag(v1::StreamRequest::kIdFieldNumber, kVarint, fields.data()));
  if (timeout_ms > 0) end = PutVarint(timeout_ms, PutTag(v1::StreamRequest::kTimeoutMsFieldNumber, kVarint, end));
  end = PutVarint(request.size(), PutTag(v1::StreamRequest::kRequestFieldNumber, kLength, end));
  const auto fields_bytes = static_cast<size_t>(end - fields.data());
  std::array<uint8_t, kMostFieldBytes> begin;
  end = PutTag(v1::StreamRequests::kRequestsFieldNumber, kLength, begin.data());
  end = PutVarint(fields_bytes + request.size(), end);

  piece_.append(reinterpret_cast<const char*>(begin.data()), static_cast<size_t>(end - begin.data()));
  piece_.append(reinterpret_cast<const char*>(fields.data()), fields_bytes);
  if (request.size() <= kMostCopied) {
    piece_.append(reinterpret_cast<const char*>(request.begin()), request.size());
  } else {
    EndPiece();
    slices_.push_back(request);
  }
  ++count_;
  bytes_ += request.size();
}

bool StreamBatch::IsFull(size_t next_bytes) const {
  return count_ > 0 && (count_ == kMostBatchRequests || bytes_ + next_bytes > kMostBatchBytes);
}

void StreamBatch::EndPiece() {
  if (piece_.empty()) return;
  slices_.emplace_back(piece_);
  piece_.clear();
}

grpc::ByteBuffer StreamBatch::Take() {
  EndPiece();
  grpc::ByteBuffer message(slices_.data(), slices_.size());
  slices_.clear();
  count_ = bytes_ = 0;
  return message;
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
