// A stream of any method, by its name, read and written one message at a time.

#ifndef WIDELANE_TESTS_SUPPORT_GENERIC_STREAM_H_
#define WIDELANE_TESTS_SUPPORT_GENERIC_STREAM_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "tests/support/check.h"

namespace widelane::test {

// Used by one thread at a time.
template <typename Request, typename Reply>
class GenericStream {
 public:
  GenericStream(const std::shared_ptr<grpc::Channel>& channel, const std::string& method)
      : stub_(channel), stream_(stub_.PrepareCall(&context_, method, &queue_)) {
    stream_->StartCall(this);
    Wait();
  }

  ~GenericStream() {
    context_.TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    for (bool ok = false; queue_.Next(&tag, &ok);) {
    }
  }

  bool Write(const Request& request) {
    stream_->Write(request, this);
    return Wait();
  }

  // After the last Read.
  grpc::Status Finish() {
    grpc::Status status;
    stream_->Finish(&status, this);
    Wait();
    return status;
  }

  enum class Outcome { kMessage, kEnd, kNothingYet };
  // After kNothingYet, the next Read goes on waiting for the same message; `reply` is only set with kMessage.
  Outcome Read(Reply& reply, std::chrono::milliseconds timeout) {
    if (!reading_) stream_->Read(&next_, this);
    reading_ = true;
    void* tag = nullptr;
    bool ok = false;
    const auto deadline = std::chrono::system_clock::now() + timeout;
    if (queue_.AsyncNext(&tag, &ok, deadline) != grpc::CompletionQueue::GOT_EVENT) return Outcome::kNothingYet;
    reading_ = false;
    if (!ok) return Outcome::kEnd;
    reply = next_;
    return Outcome::kMessage;
  }

 private:
  bool Wait() {
    void* tag = nullptr;
    bool ok = false;
    Require(queue_.Next(&tag, &ok), "a completion queue that is open");
    return ok;
  }

  grpc::TemplatedGenericStub<Request, Reply> stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<Request, Reply>> stream_;
  Reply next_;
  bool reading_ = false;
};

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_GENERIC_STREAM_H_
