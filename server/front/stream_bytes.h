// One message of a ScoreStream as it was received, kept for as long as one of its requests is looked at.

#ifndef WIDELANE_SERVER_FRONT_STREAM_BYTES_H_
#define WIDELANE_SERVER_FRONT_STREAM_BYTES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/front/context.h"
#include "server/front/message_bytes.h"

namespace widelane {

class StreamBytes {
 public:
  // Takes the bytes of `buffer`. They count as queued until this goes; `admission` outlives it.
  StreamBytes(Admission& admission, grpc::ByteBuffer& buffer) : admission_(admission) {
    bytes_.Take(buffer);
    admitted_ = admission.TakeBytes(bytes_.size());
  }
  ~StreamBytes() {
    if (admitted_.ok()) admission_.GiveBytes(bytes_.size());
  }
  StreamBytes(const StreamBytes&) = delete;
  StreamBytes& operator=(const StreamBytes&) = delete;

  // Whether the server has room for the message; if not, none of its requests is taken.
  const absl::Status& admitted() const { return admitted_; }
  // Reads what has not been passed.
  absl::Status Read(MessageBytes::ReadBytes read) { return bytes_.Read(passed_, read); }
  // So many bytes more need not be read again.
  void Pass(int bytes) { passed_ += static_cast<uint64_t>(bytes); }

 private:
  Admission& admission_;
  MessageBytes bytes_;
  absl::Status admitted_;
  uint64_t passed_ = 0;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_STREAM_BYTES_H_
