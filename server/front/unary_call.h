// One Score call, from the moment the server is willing to take one until its status is sent; then it is used again.

#ifndef WIDELANE_SERVER_FRONT_UNARY_CALL_H_
#define WIDELANE_SERVER_FRONT_UNARY_CALL_H_

#include <atomic>
#include <optional>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/async_unary_call.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/front/message_bytes.h"
#include "server/front/score_job.h"

namespace widelane {

class ScoreQueue;

class UnaryCall final : public ScoreJob {
 public:
  UnaryCall(FrontContext& context, ScoreQueue& queue);

  // Asks gRPC for the next request. The call belongs to gRPC, and to whoever scores it, until the queue's Retire is
  // called.
  void Post();
  void OnEvent(QueueEvent event, bool ok, SoloScorer& solo) override;

 private:
  struct Rpc {
    // Not an initializer of the member: clang would not see it yet where `rpc_` is declared.
    Rpc() : writer(&context) {}

    grpc::ServerContext context;
    grpc::ByteBuffer request;
    grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> writer;
  };

  void OnRequest(SoloScorer& solo);
  absl::Status ReadRequest();
  void Answer(const absl::Status& status, ReplySlices reply) override;
  std::optional<TraceParent> trace_parent() const override { return ReadTraceParent(rpc_->context); }
  void ReleaseBytes() override { bytes_.Clear(); }
  void Release();
  void End();

  ScoreQueue& queue_;
  QueueTag request_tag_{this, QueueEvent::kRequest};
  QueueTag done_tag_{this, QueueEvent::kDone};
  QueueTag finish_tag_{this, QueueEvent::kFinish};

  // Of the current call.
  std::optional<Rpc> rpc_;
  MessageBytes bytes_;
  std::atomic<int> uses_{0};  // by the thread that handles the request, and the done and finish tags
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_UNARY_CALL_H_
