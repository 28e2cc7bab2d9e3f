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
  queue_.RequestUnary(rpc_->context, rpc_->request, rpc_->writer, &request_tag_);
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
  bytes_.Take(rpc_->request);
  const absl::Status in_time = SetDeadline(ToSteady(rpc_->context.deadline(), context().clock));
  Go(in_time.ok() ? ReadRequest() : in_time, solo);
}

absl::Status UnaryCall::ReadRequest() {
  if (absl::Status status = Admit(bytes_.size()); !status.ok()) return status;
  if (absl::Status status = TakeBytes(bytes_.size()); !status.ok()) return status;
  const auto take = [this](uint64_t bytes) { return TakeBytes(bytes); };
  return WithMemory([&] {
    return bytes_.Read(0, [&](google::protobuf::io::CodedInputStream& in, int size) {
      return DecodeScoreRequest(in, size, context().config.limits, take, request());
    });
  });
}

void UnaryCall::Answer(const absl::Status& status, ReplySlices reply) {
  const grpc::Status sent = ToGrpcStatus(status);
  HandOver(sent.error_code());
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
