// A load of messages on ScoreStream.

#ifndef WIDELANE_CLIENT_CLI_BENCH_STREAM_H_
#define WIDELANE_CLIENT_CLI_BENCH_STREAM_H_

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "client/cli/bench_worker.h"

namespace widelane::cli {

// Slot s belongs to stream s % streams, and its messages have the id s + 1. Messages that become ready while answers
// are read are written together: gRPC is told to wait for more, until the completion queue has nothing left.
class StreamWorker final : public LoadWorker {
 public:
  StreamWorker(LoadPlan& plan, LoadShare share);

 protected:
  void Open() override;
  void Send(size_t slot) override;
  bool Next(void*& tag, bool& ok) override;
  void OnEvent(void* tag, bool ok) override;
  void Close() override;
  void CancelAll() override;
  absl::string_view ReplyIn(absl::string_view message) const override;

 private:
  enum class Event : uint8_t { kStart, kRead, kWrite, kWritesDone, kFinish };
  struct Stream;
  struct Tag {
    Stream* stream;
    Event event;
  };
  struct Stream {
    size_t number = 0;
    std::mutex mutex;  // of what follows, up to `status`
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
    std::deque<size_t> outbox;
    bool started = false;
    bool writing = false;
    bool closing = false;     // nothing more will be sent
    bool ended = false;       // by the server
    std::vector<bool> asked;  // slots whose answer has not come
    grpc::ByteBuffer incoming;
    grpc::Status status;
    Tag start, read, write, writes_done, finish;
  };

  // These hold the stream's mutex.
  void WriteNext(Stream& stream, bool hold);
  void OnStart(Stream& stream, bool ok);
  void End(Stream& stream);

  void OnRead(Stream& stream, bool ok);
  void OnMessage(Stream& stream, const grpc::ByteBuffer& message);
  void OnFinish(Stream& stream);
  void Flush();

  std::vector<grpc::GenericStub> stubs_;
  std::deque<Stream> streams_;
  size_t open_;        // streams that are not finished
  bool held_ = false;  // an outbox may hold messages back; the worker's thread alone
};

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_STREAM_H_
