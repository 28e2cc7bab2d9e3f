// A ScoreStream as a test drives it, from one thread that writes and one that reads.

#ifndef WIDELANE_TESTS_SUPPORT_SCORE_STREAM_H_
#define WIDELANE_TESTS_SUPPORT_SCORE_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "tests/support/rpc.h"
#include "widelane/v1/scoring.grpc.pb.h"

namespace widelane::test {

// Adds a request to a message.
inline void Add(v1::StreamRequests& message, uint64_t id, const v1::ScoreRequest& request, uint32_t timeout_ms = 0) {
  v1::StreamRequest& added = *message.add_requests();
  added.set_id(id);
  *added.mutable_request() = request;
  added.set_timeout_ms(timeout_ms);
}

class ScoreStream {
 public:
  explicit ScoreStream(v1::Scoring::StubInterface& stub, std::chrono::milliseconds deadline = kCallLimit) {
    context_.set_deadline(std::chrono::system_clock::now() + deadline);
    stream_ = stub.ScoreStream(&context_);
  }
  ~ScoreStream() { context_.TryCancel(); }

  // In a message of its own.
  bool Send(uint64_t id, const v1::ScoreRequest& request, uint32_t timeout_ms = 0) {
    v1::StreamRequests message;
    Add(message, id, request, timeout_ms);
    return Send(message);
  }
  bool Send(const v1::StreamRequests& message) { return stream_->Write(message); }
  // The next reply, whichever message it is in.
  bool Receive(v1::StreamReply& reply) {
    while (next_ == message_.replies_size()) {
      if (!Receive(message_)) return false;
      next_ = 0;
    }
    reply = std::move(*message_.mutable_replies(next_++));
    return true;
  }
  bool Receive(v1::StreamReplies& message) { return stream_->Read(&message); }
  // No more will be sent.
  void Close() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }
  // After the last Receive.
  grpc::Status Finish() { return stream_->Finish(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriterInterface<v1::StreamRequests, v1::StreamReplies>> stream_;
  v1::StreamReplies message_;
  int next_ = 0;  // reply of it
};

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_SCORE_STREAM_H_
