// The machine behind a ScoreStream: one call at a time, and one thread that waits for what becomes of it.
//
// Any thread that calls Score also writes, if no other write is under way; else the thread of the stream writes it
// later, in one message with all that waits by then. That keeps the way of a request short, makes many of them cheap,
// and leaves at most max_in_flight requests waiting for flow control.

#ifndef WIDELANE_CLIENT_SRC_STREAM_H_
#define WIDELANE_CLIENT_SRC_STREAM_H_

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "src/connection.h"
#include "widelane/client/score_stream.h"
#include "widelane/v1/scoring.pb.h"

namespace widelane::client {

class ScoreStream::Impl {
 public:
  using Done = std::function<void(absl::StatusOr<ScoreReply>)>;

  Impl(std::shared_ptr<Connection> connection, const StreamOptions& options);
  ~Impl() { Close(); }

  void Score(const ScoreRequest& request, Done done);
  bool InsideDone() const { return std::this_thread::get_id() == loop_id_; }
  void Close();

 private:
  using Clock = std::chrono::steady_clock;
  using Stub = grpc::TemplatedGenericStub<grpc::ByteBuffer, v1::StreamReplies>;
  using Lock = std::unique_lock<std::mutex>;

  // Something unanswered.
  struct Pending {
    grpc::Slice request;
    Clock::time_point deadline;
    Done done;
    int attempts = 0;  // calls that ended without an answer to it
  };
  using PendingById = std::unordered_map<uint64_t, Pending>;

  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientAsyncReaderWriter<grpc::ByteBuffer, v1::StreamReplies>> stream;
    v1::StreamReplies replies;
    grpc::Status status;
    bool open = false;     // has been started
    bool reading = false;  // these two are under way
    bool writing = false;
    bool closed = false;                          // no more writes
    bool ended = false;                           // by the other side, or never began
    bool answered = false;                        // anything
    std::optional<Clock::time_point> hang_up_at;  // the time to cancel a call that should end by itself
  };

  // An answer for a caller, given without the lock.
  struct Answer {
    Done done;
    absl::StatusOr<ScoreReply> reply;
  };

  // One message that its finder has to write, without the lock.
  struct Write {
    struct Part {
      uint64_t id;
      Clock::time_point deadline;
      grpc::Slice request;
    };
    std::shared_ptr<Call> call;
    std::vector<Part> parts;
  };

  // Waits for room among the requests in flight, and takes it.
  absl::Status TakeRoom(Clock::time_point deadline);
  void GiveRoom(const Lock& lock);
  absl::Status Encode(const ScoreRequest& request, uint64_t id, Clock::time_point deadline, grpc::Slice& out);

  // The functions below that take a Lock want it held.
  std::vector<Write::Part> TakeUnsent(const Lock& lock);
  std::optional<Write> NextWrite(const Lock& lock);
  static void Make(const std::optional<Write>& write);
  Answer Take(const Lock& lock, PendingById::iterator pending, absl::StatusOr<ScoreReply> reply);
  // Makes the thread of the stream look at its timers.
  void Wake(const Lock& lock);

  // All that follows runs on the thread of the stream.
  void Run();
  // Does what is due; the time of the next look, or nothing when all is done.
  std::optional<Clock::time_point> Look();
  void Expire(const Lock& lock, Clock::time_point now, std::vector<Answer>& answers);
  void StartCall(const Lock& lock);
  void HangUp(const Lock& lock, Clock::time_point now);
  void Handle(void* tag, bool ok);
  void OnStarted(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished();
  // Once nothing else is under way.
  void FinishEndedCall(const Lock& lock);
  // After a call that ended with UNAVAILABLE.
  void TryAgain(const Lock& lock, const absl::Status& status, bool answered, std::vector<Answer>& answers);

  const std::shared_ptr<Connection> connection_;
  const size_t max_in_flight_;
  const bool refuse_when_full_;
  Stub stub_;
  grpc::CompletionQueue completions_;

  std::mutex mutex_;
  std::condition_variable room_;
  // All that follows is guarded by mutex_, but for what a call holds for its reader and its writer.
  grpc::Alarm alarm_;
  bool waking_ = false;  // alarm_ is set
  bool closing_ = false;
  uint64_t next_id_ = 1;
  size_t in_flight_ = 0;  // pending_ and those that are being encoded
  PendingById pending_;
  std::deque<uint64_t> unsent_;  // on the present call; some may have expired
  std::shared_ptr<Call> call_;
  // At or before the earliest deadline. Not moved when a request is answered, so that few requests need a wake.
  Clock::time_point look_at_ = Clock::time_point::max();
  Clock::time_point not_before_{};  // of the next call
  std::chrono::milliseconds pause_;

  std::once_flag joined_;
  std::thread thread_;
  std::thread::id loop_id_;
};

}  // namespace widelane::client

#endif  // WIDELANE_CLIENT_SRC_STREAM_H_
