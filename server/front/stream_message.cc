#include "server/front/stream_message.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "google/protobuf/io/coded_stream.h"
#include "server/front/status_mapping.h"
#include "server/front/stream_call.h"
#include "widelane/v1/scoring.pb.h"

namespace widelane {

namespace {

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

uint8_t* WriteBytesHeader(int field, size_t size, uint8_t* at) {
  constexpr uint32_t kLengthDelimited = 2;
  at = CodedOutputStream::WriteTagToArray(static_cast<uint32_t>(field) << 3 | kLengthDelimited, at);
  return CodedOutputStream::WriteVarint64ToArray(size, at);
}

// What stands before the result in a StreamReplies: field and size of the reply, its id, field and size of the result.
grpc::Slice Header(uint64_t id, int field, size_t size) {
  constexpr size_t kMost = 1 + 10;  // tag (all fields are below 16) and a varint
  constexpr uint32_t kVarint = 0;
  std::array<uint8_t, 2 * kMost> inner;
  uint8_t* end = CodedOutputStream::WriteTagToArray(v1::StreamReply::kIdFieldNumber << 3 | kVarint, inner.data());
  end = CodedOutputStream::WriteVarint64ToArray(id, end);
  end = WriteBytesHeader(field, size, end);
  const auto inner_size = static_cast<size_t>(end - inner.data());

  std::array<uint8_t, 3 * kMost> bytes;
  end = WriteBytesHeader(v1::StreamReplies::kRepliesFieldNumber, inner_size + size, bytes.data());
  end = std::copy_n(inner.data(), inner_size, end);
  return grpc::Slice(bytes.data(), static_cast<size_t>(end - bytes.data()));
}

ReplySlices ErrorReply(const absl::Status& status) {
  ReplySlices reply;
  reply.slices[reply.count++] = grpc::Slice(ToRpcStatus(status).SerializeAsString());
  return reply;
}

}  // namespace

void StreamMessage::Take(std::shared_ptr<StreamBytes> bytes) {
  Renew();
  bytes_ = std::move(bytes);
}

void StreamMessage::Handle(CodedInputStream& in, int size, TimePoint deadline, SoloScorer& solo) {
  Start(Method::kScoreStream);
  StreamRequestView& view = stream_request();
  view.error = Admit(static_cast<uint64_t>(size));
  if (view.error.ok()) view.error = bytes_->admitted();
  const auto take = [this](uint64_t bytes) { return TakeBytes(bytes); };
  const absl::Status memory = WithMemory([&] {
    DecodeStreamRequest(in, size, context().config.limits, take, view);
    return absl::OkStatus();
  });
  view.error.Update(memory);
  if (view.timeout_ms != 0) {
    deadline = std::min(deadline, context().clock.Now() + std::chrono::milliseconds(view.timeout_ms));
  }
  view.error.Update(SetDeadline(deadline));
  Go(view.error, solo);
}

void StreamMessage::Answer(const absl::Status& status, ReplySlices reply) {
  reply_ = status.ok() ? std::move(reply) : ErrorReply(status);
  const int field = status.ok() ? v1::StreamReply::kReplyFieldNumber : v1::StreamReply::kErrorFieldNumber;
  header_ = Header(stream_request().id, field, reply_.size());
  HandOver(static_cast<int>(status.code()));
  stream_.OnAnswered(*this);
}

std::optional<TraceParent> StreamMessage::trace_parent() const { return stream_.trace_parent(); }

void StreamMessage::AddReply(std::vector<grpc::Slice>& slices) const {
  slices.push_back(header_);
  slices.insert(slices.end(), reply_.slices.begin(), reply_.slices.begin() + reply_.count);
}

void StreamMessage::End() {
  header_ = grpc::Slice();
  reply_ = {};
  Leave();
}

}  // namespace widelane
