#include "server/front/message_bytes.h"

#include "grpcpp/support/proto_buffer_reader.h"

namespace widelane {

using google::protobuf::io::CodedInputStream;

void MessageBytes::Take(grpc::ByteBuffer& buffer) {
  buffer_.Clear();
  buffer_.Swap(&buffer);
  size_ = buffer_.Length();
  is_whole_ = buffer_.TrySingleSlice(&whole_).ok();
}

void MessageBytes::Clear() {
  buffer_.Clear();
  size_ = 0;
  is_whole_ = false;
  whole_ = grpc::Slice();
}

absl::Status MessageBytes::Read(uint64_t begin, ReadBytes read) {
  const int size = static_cast<int>(size_ - begin);
  if (is_whole_) {
    CodedInputStream in(whole_.begin() + begin, size);
    return read(in, size);
  }
  grpc::ProtoBufferReader reader(&buffer_);
  if (!reader.status().ok()) return absl::InternalError("the message cannot be read");
  if (begin > 0) reader.Skip(static_cast<int>(begin));
  CodedInputStream in(&reader);
  return read(in, size);
}

}  // namespace widelane
