// StreamRequests in their wire form.

#ifndef WIDELANE_CLIENT_SRC_STREAM_MESSAGE_H_
#define WIDELANE_CLIENT_SRC_STREAM_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "widelane/v1/scoring.pb.h"

namespace widelane::client {

// Nothing of it changes from one attempt to the next, so it is made once.
grpc::Slice Serialize(const v1::ScoreRequest& request);

// A message in the making. Times of less than a millisecond count as one.
class StreamMessage {
 public:
  // At most what a request takes of a message beside its own bytes.
  static constexpr size_t kHeadBytes = 40;

  // `request` is a serialized one.
  void Add(uint64_t id, std::chrono::nanoseconds timeout, const grpc::Slice& request);
  size_t bytes() const { return bytes_; }
  // All of it, which may share the bytes of the requests. Once.
  grpc::ByteBuffer Take();

 private:
  void EndPiece();

  std::string piece_;  // of what is copied
  std::vector<grpc::Slice> slices_;
  size_t bytes_ = 0;
};

}  // namespace widelane::client

#endif  // WIDELANE_CLIENT_SRC_STREAM_MESSAGE_H_
