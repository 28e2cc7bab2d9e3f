// A load of requests on ScoreStream.

#ifndef WIDELANE_CLIENT_CLI_BENCH_STREAM_H_
#define WIDELANE_CLIENT_CLI_BENCH_STREAM_H_

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/cli/bench_wire.h"
#include "client/cli/bench_worker.h"

namespace widelane::cli {

// Slot s belongs to stream s % streams, and its requests have the id s + 1. Requests that become ready while a write is
// under way, or in a closed loop by the answers of one message, go in one message.
class StreamWorker final : public LoadWorker {
 public:
  StreamWorker(LoadPlan& plan, LoadShare share);

 protected:
  void Open() override;
  void Send(size_t slot) override;
  void OnEvent(void* tag, bool ok) override;
  void Close() override;
  void CancelAll() override;

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
    StreamBatch batch;  // empty but for WriteNext
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
  void WriteNext(Stream& stream);
  void OnStart(Stream& stream, bool ok);
  void End(Stream& stream);

  void OnRead(Stream& stream, bool ok);
  void OnMessage(Stream& stream, absl::string_view message);
  void OnAnswer(Stream& stream, absl::string_view reply);
  void OnFinish(Stream& stream);

  std::vector<grpc::GenericStub> stubs_;
  std::deque<Stream> streams_;
  size_t open_;           // streams that are not finished
  bool holding_ = false;  // more answers are at hand, so nothing is written yet; the worker's thread alone
};

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_STREAM_H_
