#include "server/front/stream_message.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "google/protobuf/io/coded_stream.h"
#include "server/front/status_mapping.h"
#include "server/front/stream_call.h"
#include "widelane/v1/scoring.pb.h"

namespace widelane {

namespace {

using google::protobuf::io::CodedOutputStream;

// What stands before the result in a StreamReply: the id, and field and size of the result.
grpc::Slice Header(uint64_t id, int field, size_t size) {
  constexpr uint32_t kVarint = 0;
  constexpr uint32_t kLengthDelimited = 2;
  std::array<uint8_t, 2 * (1 + 10)> bytes;
  uint8_t* at = CodedOutputStream::WriteTagToArray(v1::StreamReply::kIdFieldNumber << 3 | kVarint, bytes.data());
  at = CodedOutputStream::WriteVarint64ToArray(id, at);
  at = CodedOutputStream::WriteTagToArray(static_cast<uint32_t>(field) << 3 | kLengthDelimited, at);
  at = CodedOutputStream::WriteVarint64ToArray(size, at);
  return grpc::Slice(bytes.data(), static_cast<size_t>(at - bytes.data()));
}

grpc::ByteBuffer ErrorReply(uint64_t id, const absl::Status& status) {
  const std::string error = ToRpcStatus(status).SerializeAsString();
  const std::array<grpc::Slice, 2> slices = {Header(id, v1::StreamReply::kErrorFieldNumber, error.size()),
                                             grpc::Slice(error)};
  return grpc::ByteBuffer(slices.data(), slices.size());
}

grpc::ByteBuffer Reply(uint64_t id, ReplySlices& reply) {
  const std::array<grpc::Slice, 3> slices = {Header(id, v1::StreamReply::kReplyFieldNumber, reply.size()),
                                             std::move(reply.slices[0]), std::move(reply.slices[1])};
  return grpc::ByteBuffer(slices.data(), 1 + reply.count);
}

}  // namespace

void StreamMessage::Take(grpc::ByteBuffer& bytes) {
  Renew();
  message().Swap(&bytes);
}

absl::Status StreamMessage::Handle(TimePoint deadline, SoloScorer& solo) {
  Start(Method::kScoreStream);
  StreamRequestView& view = stream_request();
  view.error = Admit();
  const auto take = [this](uint64_t bytes) { return TakeBytes(bytes); };
  const absl::Status read = ReadMessage([&](google::protobuf::io::CodedInputStream& in, int size) {
    return DecodeStreamRequest(in, size, context().config.limits, take, view);
  });
  if (!read.ok()) {
    Abandon(read);
    return read;
  }
  if (view.timeout_ms != 0) {
    deadline = std::min(deadline, context().clock.Now() + std::chrono::milliseconds(view.timeout_ms));
  }
  const absl::Status in_time = SetDeadline(deadline);
  Go(view.error.ok() ? in_time : view.error, solo);
  return absl::OkStatus();
}

void StreamMessage::Answer(const absl::Status& status, ReplySlices reply) {
  SetCode(static_cast<int>(status.code()));
  const uint64_t id = stream_request().id;
  reply_ = status.ok() ? Reply(id, reply) : ErrorReply(id, status);
  stream_.OnAnswered(*this);
}

void StreamMessage::End() {
  reply_.Clear();
  Leave();
}

}  // namespace widelane
