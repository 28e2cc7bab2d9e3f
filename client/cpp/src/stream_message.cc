#include "src/stream_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <array>
#include <limits>

namespace widelane::client {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

// Copying so few bytes costs less than handing on a reference to them.
constexpr size_t kMostCopied = 1024;

uint32_t Milliseconds(std::chrono::nanoseconds timeout) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(
      std::clamp<int64_t>(std::chrono::ceil<std::chrono::milliseconds>(timeout).count(), 1, kMost));
}

// Tag and size of something of `bytes` bytes.
uint8_t* WriteBegin(int field, size_t bytes, uint8_t* at) {
  at = WireFormatLite::WriteTagToArray(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED, at);
  return CodedOutputStream::WriteVarint64ToArray(bytes, at);
}

}  // namespace

grpc::Slice Serialize(const v1::ScoreRequest& request) {
  grpc::Slice slice(request.ByteSizeLong());
  // A slice that no one else has yet.
  request.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return slice;
}

void StreamMessage::Add(uint64_t id, std::chrono::nanoseconds timeout, const grpc::Slice& request) {
  // The size of a StreamRequest goes before it, so its fields are written first.
  std::array<uint8_t, kHeadBytes> fields;
  uint8_t* end = WireFormatLite::WriteUInt64ToArray(v1::StreamRequest::kIdFieldNumber, id, fields.data());
  end = WireFormatLite::WriteUInt32ToArray(v1::StreamRequest::kTimeoutMsFieldNumber, Milliseconds(timeout), end);
  end = WriteBegin(v1::StreamRequest::kRequestFieldNumber, request.size(), end);
  const auto fields_bytes = static_cast<size_t>(end - fields.data());
  std::array<uint8_t, kHeadBytes> begin;
  end = WriteBegin(v1::StreamRequests::kRequestsFieldNumber, fields_bytes + request.size(), begin.data());
  const auto begin_bytes = static_cast<size_t>(end - begin.data());

  piece_.append(reinterpret_cast<const char*>(begin.data()), begin_bytes);
  piece_.append(reinterpret_cast<const char*>(fields.data()), fields_bytes);
  if (request.size() <= kMostCopied) {
    piece_.append(reinterpret_cast<const char*>(request.begin()), request.size());
  } else {
    EndPiece();
    slices_.push_back(request);
  }
  bytes_ += begin_bytes + fields_bytes + request.size();
}

void StreamMessage::EndPiece() {
  if (piece_.empty()) return;
  slices_.emplace_back(piece_);
  piece_.clear();
}

grpc::ByteBuffer StreamMessage::Take() {
  EndPiece();
  return {slices_.data(), slices_.size()};
}

}  // namespace widelane::client
