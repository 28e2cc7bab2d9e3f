// StreamRequests in their wire form.

#ifndef WIDELANE_CLIENT_SRC_STREAM_MESSAGE_H_
#define WIDELANE_CLIENT_SRC_STREAM_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <cstdint>

#include "widelane/v1/scoring.pb.h"

namespace widelane::client {

// Nothing of it changes from one attempt to the next, so it is made once.
grpc::ByteBuffer Serialize(const v1::ScoreRequest& request);

// The StreamRequest of a serialized request, whose bytes it shares. Times of less than a millisecond count as one.
grpc::ByteBuffer StreamMessage(uint64_t id, std::chrono::nanoseconds timeout, const grpc::ByteBuffer& request);

}  // namespace widelane::client

#endif  // WIDELANE_CLIENT_SRC_STREAM_MESSAGE_H_
