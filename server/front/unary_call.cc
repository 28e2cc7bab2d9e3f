#include "server/front/unary_call.h"

#include "server/front/deadline.h"
#include "server/front/score_queue.h"
#include "server/front/status_mapping.h"

namespace widelane {

UnaryCall::UnaryCall(FrontContext& context, ScoreQueue& queue)
    : ScoreJob(context, queue.completion_queue()), queue_(queue) {}

void UnaryCall::Post() {
  rpc_.emplace();
  Renew();
  uses_.store(3, std::memory_order_relaxed);
  rpc_->context.AsyncNotifyWhenDone(&done_tag_);
  queue_.RequestUnary(rpc_->context, message(), rpc_->writer, &request_tag_);
}

void UnaryCall::OnEvent(QueueEvent event, bool ok, SoloScorer& solo) {
  switch (event) {
    case QueueEvent::kRequest:
      // Not ok: the server is stopping, there was no call, and the done tag never comes.
      if (!ok) return End();
      queue_.PostUnary();
      OnRequest(solo);
      return Release();
    case QueueEvent::kDone:
      if (rpc_->context.IsCancelled()) Withdraw();
      return Release();
    case QueueEvent::kFinish:
      return Release();
    default:
      return ScoreJob::OnEvent(event, ok, solo);
  }
}

void UnaryCall::OnRequest(SoloScorer& solo) {
  Start(Method::kScore);
  absl::Status status = SetDeadline(ToSteady(rpc_->context.deadline(), context().clock));
  if (status.ok()) status = Admit();
  if (status.ok()) {
    const auto take = [this](uint64_t bytes) { return TakeBytes(bytes); };
    status = ReadMessage([&](google::protobuf::io::CodedInputStream& in, int size) {
      return DecodeScoreRequest(in, size, context().config.limits, take, request());
    });
  }
  Go(status, solo);
}

void UnaryCall::Answer(const absl::Status& status, ReplySlices reply) {
  const grpc::Status sent = ToGrpcStatus(status);
  SetCode(sent.error_code());
  if (sent.ok()) {
    const grpc::ByteBuffer bytes(reply.slices.data(), reply.count);
    rpc_->writer.Finish(bytes, sent, &finish_tag_);
  } else {
    rpc_->writer.FinishWithError(sent, &finish_tag_);
  }
}

void UnaryCall::Release() {
  if (uses_.fetch_sub(1, std::memory_order_acq_rel) == 1) End();
}

// Only now is the reply off our hands: a client that reads slowly keeps its share of what may be in the server.
void UnaryCall::End() {
  Leave();
  rpc_.reset();
  queue_.Retire(*this);
}

}  // namespace widelane
