// One Score call, from the moment the server is willing to take one until its status is sent; then it is used again.

#ifndef WIDELANE_SERVER_FRONT_SCORE_CALL_H_
#define WIDELANE_SERVER_FRONT_SCORE_CALL_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "grpcpp/alarm.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/async_unary_call.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/batching/score_task.h"
#include "server/front/context.h"
#include "server/front/reply_writer.h"
#include "server/front/score_codec.h"
#include "server/observe/call_scope.h"

namespace widelane {

class ScoreQueue;

class ScoreCall final : public ScoreTask {
 public:
  // What a completion queue tells of.
  enum class Event : uint8_t { kRequest, kDone, kFinish, kResume };
  struct Tag {
    ScoreCall* call;
    Event event;
  };

  ScoreCall(FrontContext& context, ScoreQueue& queue);

  // Asks gRPC for the next request. The call belongs to gRPC, and to whoever scores it, until the queue's Retire is
  // called.
  void Post();
  // A tag came out of the completion queue; any of its threads.
  void OnEvent(Event event, bool ok);

  absl::Status CheckWanted() const override;
  void OnRows(const Slab& slab, const Segment& segment, uint64_t first_row) override;
  void Resume() override;
  void OnDone(const absl::Status& status) override;

 private:
  struct Rpc {
    // Not an initializer of the member: clang would not see it yet where `rpc_` is declared.
    Rpc() : writer(&context) {}

    grpc::ServerContext context;
    grpc::ByteBuffer request;
    grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> writer;
  };

  void Handle();
  absl::Status TryPrepare();
  void End();
  absl::Status Prepare();
  absl::Status CheckDeadline();
  absl::Status Admit(uint64_t bytes);
  absl::Status TakeBytes(uint64_t bytes);
  absl::Status ReadRequest();
  absl::Status PrepareReply();
  v1::StageTimes MakeStageTimes() const;
  void CountReply(const grpc::ByteBuffer& reply);
  void ReleaseRequest();
  // The one place where a call's outcome is told: noted for accounting, and sent. The call may be gone, and be another
  // one, when this returns.
  void Complete(const absl::Status& status, const grpc::ByteBuffer& reply);

  FrontContext& context_;
  ScoreQueue& queue_;
  Tag request_tag_{this, Event::kRequest};
  Tag done_tag_{this, Event::kDone};
  Tag finish_tag_{this, Event::kFinish};
  Tag resume_tag_{this, Event::kResume};

  // Of the current call.
  std::optional<Rpc> rpc_;
  std::optional<CallScope> scope_;
  std::mutex alarm_mutex_;  // the alarm may go off, and the call end, before the thread that set it is back
  std::optional<grpc::Alarm> alarm_;
  std::atomic<int> tags_left_{0};       // done and finish
  std::atomic<bool> cancelled_{false};  // by the client, the deadline or a lost connection
  std::chrono::steady_clock::time_point deadline_;
  bool entered_ = false;
  uint64_t bytes_taken_ = 0;
  uint64_t reply_bytes_taken_ = 0;
  grpc::Slice message_;
  ScoreRequestView request_;
  const ServedModel* served_ = nullptr;
  ReplyWriter reply_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_SCORE_CALL_H_
