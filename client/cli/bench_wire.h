// What a load generator has to read and write of messages, without parsing them.

#ifndef WIDELANE_CLIENT_CLI_BENCH_WIRE_H_
#define WIDELANE_CLIENT_CLI_BENCH_WIRE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace widelane::cli {

// One field of a message.
struct WireField {
  uint32_t number = 0;
  uint64_t value = 0;
  absl::string_view bytes;
};

// Takes the first field off `message`; false when none can be read. `bytes` is short where `message` is.
bool TakeField(absl::string_view& message, WireField& field);

// `rows` of a ScoreReply, of which the beginning is enough. Absent when it is not there.
std::optional<uint64_t> RowsOfReply(absl::string_view reply);

struct StreamAnswer {
  uint64_t id = 0;
  std::optional<int32_t> error;  // google.rpc.Status's code
  absl::string_view message;     // and message
  absl::string_view reply;       // ScoreReply
};
// What a StreamReply says.
StreamAnswer ReadStreamAnswer(absl::string_view reply);

// A StreamRequests message in the making.
class StreamBatch {
 public:
  // `request` is an encoded ScoreRequest.
  void Add(uint64_t id, uint32_t timeout_ms, const grpc::Slice& request);
  // Whether it takes no more; one that is empty takes anything. `next_bytes`: of the request that would be added.
  bool IsFull(size_t next_bytes) const;
  // All of it; then it is empty again.
  grpc::ByteBuffer Take();

 private:
  void EndPiece();

  std::string piece_;  // of what is copied
  std::vector<grpc::Slice> slices_;
  size_t count_ = 0;
  size_t bytes_ = 0;
};

// The beginning of a message, at least its first 64 bytes; not copied where they lie in one piece.
grpc::Slice HeadOf(const grpc::ByteBuffer& message);
// All of it.
grpc::Slice WholeOf(const grpc::ByteBuffer& message);

inline absl::string_view TextOf(const grpc::Slice& slice) {
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_WIRE_H_
