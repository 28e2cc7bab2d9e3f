// One ScoreStream, from the moment the server is willing to take one until it has ended; then it is used again.
//
// One read and one write are under way at a time. Each request of a message that was read becomes a StreamMessage; as
// many as `stream-requests` may be unanswered or unwritten, then no further ones are taken from the message, and
// nothing is read. Answers are written in the order in which they come, as many in a message as are there. README.md
// has how a stream ends.

#ifndef WIDELANE_SERVER_FRONT_STREAM_CALL_H_
#define WIDELANE_SERVER_FRONT_STREAM_CALL_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/alarm.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/async_stream.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/front/context.h"
#include "server/front/queue_tag.h"
#include "server/front/score_codec.h"
#include "server/front/stream_bytes.h"
#include "server/front/stream_message.h"
#include "server/front/trace_parent.h"

namespace widelane {

class ScoreQueue;

class StreamCall final : public QueueUser {
 public:
  using Stream = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

  StreamCall(FrontContext& context, ScoreQueue& queue) : context_(context), queue_(queue) {}

  // Asks gRPC for the next stream. The call belongs to gRPC, and to whoever scores its messages, until the queue's
  // Retire is called.
  void Post();
  void OnEvent(QueueEvent event, bool ok, SoloScorer& solo) override;
  // The server stops: answers what has been read and ends with UNAVAILABLE. Any thread, at any time.
  void Drain();

  // For messages: the reply is there.
  void OnAnswered(StreamMessage& message);
  // Of the caller. Any thread, while a message is in use.
  const std::optional<TraceParent>& trace_parent() const { return trace_parent_; }

 private:
  struct Rpc {
    Rpc() : stream(&context) {}

    grpc::ServerContext context;
    Stream stream;
    grpc::ByteBuffer incoming;
  };
  // Messages in order, linked by themselves.
  struct List {
    StreamMessage* first = nullptr;
    StreamMessage* last = nullptr;

    void Add(StreamMessage& message);
    StreamMessage* Take();  // null when empty
    bool empty() const { return first == nullptr; }
  };

  void OnStart();
  void OnRead(bool ok, SoloScorer& solo);
  void OnWritten(SoloScorer& solo);
  void OnDone();
  void OnStall(bool ok);
  void OnAge(bool ok);
  void WithdrawAll();

  // One thread at a time has the requests of incoming_ to itself. It handles them, up to the last or until there is no
  // room for one.
  void HandleRequests(SoloScorer& solo);
  // Handles one. False when the thread has them no more.
  bool HandleRequest(StreamRequestsReader& reader, const std::shared_ptr<StreamBytes>& bytes, SoloScorer& solo);
  StreamMessage* TakeMessage(const StreamRequestsReader& reader, const std::shared_ptr<StreamBytes>& bytes);

  // With the lock held.
  void GoOn(std::unique_lock<std::mutex>& lock, SoloScorer& solo);
  bool HasRoom() const { return open_ < context_.config.front.stream_requests; }
  StreamMessage& AddMessage();
  void Release(StreamMessage& message);
  void ReadOn();
  void WriteOn();
  void Close(const absl::Status& status);
  void FinishIfDone();
  void WatchWrite(std::chrono::milliseconds after);

  // Drops a use; whoever drops the last ends the call, after the lock is let go of.
  void Drop();
  void End();

  FrontContext& context_;
  ScoreQueue& queue_;
  QueueTag request_tag_{this, QueueEvent::kRequest};
  QueueTag read_tag_{this, QueueEvent::kRead};
  QueueTag write_tag_{this, QueueEvent::kWrite};
  QueueTag done_tag_{this, QueueEvent::kDone};
  QueueTag finish_tag_{this, QueueEvent::kFinish};
  QueueTag stall_tag_{this, QueueEvent::kStall};
  QueueTag age_tag_{this, QueueEvent::kAge};

  std::mutex mutex_;
  std::vector<std::unique_ptr<StreamMessage>> messages_;  // all there are
  List free_;

  // Of the current stream.
  std::optional<Rpc> rpc_;
  Clock::TimePoint deadline_;
  std::optional<TraceParent> trace_parent_;
  int uses_ = 0;                           // tags that are out
  uint64_t open_ = 0;                      // requests that are not free
  std::shared_ptr<StreamBytes> incoming_;  // the message that requests are taken from
  bool waiting_ = false;                   // no thread has it
  List answered_;                          // that wait to be written
  List writing_;
  std::vector<grpc::Slice> slices_;  // empty, kept for its memory
  std::chrono::steady_clock::time_point write_began_;
  bool started_ = false;
  bool reading_ = false;
  bool closing_ = false;  // no further read; ends with end_ when all is answered
  bool finished_ = false;
  bool dead_ = false;  // cancelled: nothing can be written any more
  absl::Status end_;
  std::optional<grpc::Alarm> stall_alarm_;  // set while writes are under way
  bool stall_watched_ = false;
  std::optional<grpc::Alarm> age_alarm_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_STREAM_CALL_H_
