// A ScoreStream as a test drives it: messages one by one, from one thread that writes and one that reads.

#ifndef WIDELANE_TESTS_SUPPORT_SCORE_STREAM_H_
#define WIDELANE_TESTS_SUPPORT_SCORE_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>

#include "tests/support/rpc.h"
#include "widelane/v1/scoring.grpc.pb.h"

namespace widelane::test {

class ScoreStream {
 public:
  explicit ScoreStream(v1::Scoring::StubInterface& stub, std::chrono::milliseconds deadline = kCallLimit) {
    context_.set_deadline(std::chrono::system_clock::now() + deadline);
    stream_ = stub.ScoreStream(&context_);
  }
  ~ScoreStream() { context_.TryCancel(); }

  bool Send(uint64_t id, const v1::ScoreRequest& request, uint32_t timeout_ms = 0) {
    v1::StreamRequest message;
    message.set_id(id);
    *message.mutable_request() = request;
    message.set_timeout_ms(timeout_ms);
    return stream_->Write(message);
  }
  bool Receive(v1::StreamReply& reply) { return stream_->Read(&reply); }
  // No more will be sent.
  void Close() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }
  // After the last Receive.
  grpc::Status Finish() { return stream_->Finish(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriterInterface<v1::StreamRequest, v1::StreamReply>> stream_;
};

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_SCORE_STREAM_H_
