// The bytes of a message as gRPC received them, read where they lie.

#ifndef WIDELANE_SERVER_FRONT_MESSAGE_BYTES_H_
#define WIDELANE_SERVER_FRONT_MESSAGE_BYTES_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "google/protobuf/io/coded_stream.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

namespace widelane {

// May be read by several threads at once.
class MessageBytes {
 public:
  // Takes the bytes of `buffer`, which has none afterwards.
  void Take(grpc::ByteBuffer& buffer);
  // Gives the memory back.
  void Clear();

  uint64_t size() const { return size_; }
  // Calls `read` with what is behind the first `begin` bytes. Views into it hold until Clear.
  using ReadBytes = absl::FunctionRef<absl::Status(google::protobuf::io::CodedInputStream& in, int size)>;
  absl::Status Read(uint64_t begin, ReadBytes read);

 private:
  grpc::ByteBuffer buffer_;
  uint64_t size_ = 0;
  bool is_whole_ = false;
  grpc::Slice whole_;  // the message, when it is in one piece
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_MESSAGE_BYTES_H_
