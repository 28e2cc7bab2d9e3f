#include "src/stream_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_writer.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

namespace widelane::client {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

uint32_t Milliseconds(std::chrono::nanoseconds timeout) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(
      std::clamp<int64_t>(std::chrono::ceil<std::chrono::milliseconds>(timeout).count(), 1, kMost));
}

}  // namespace

grpc::ByteBuffer Serialize(const v1::ScoreRequest& request) {
  grpc::Slice slice(request.ByteSizeLong());
  // A slice that no one else has yet.
  request.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return {&slice, 1};
}

grpc::ByteBuffer StreamMessage(uint64_t id, std::chrono::nanoseconds timeout, const grpc::ByteBuffer& request) {
  v1::StreamRequest fields;
  fields.set_id(id);
  fields.set_timeout_ms(Milliseconds(timeout));
  std::string head = fields.SerializeAsString();
  std::array<uint8_t, 10> prefix;
  uint8_t* end = WireFormatLite::WriteTagToArray(v1::StreamRequest::kRequestFieldNumber,
                                                 WireFormatLite::WIRETYPE_LENGTH_DELIMITED, prefix.data());
  end = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(request.Length()), end);
  head.append(prefix.data(), end);

  std::vector<grpc::Slice> slices;
  (void)request.Dump(&slices);
  slices.insert(slices.begin(), grpc::Slice(head));
  return {slices.data(), slices.size()};
}

}  // namespace widelane::client
