#include "client/cli/bench_unary.h"

#include <utility>

namespace widelane::cli {

UnaryWorker::UnaryWorker(LoadPlan& plan, LoadShare share) : LoadWorker(plan, std::move(share)), calls_(slots_.size()) {
  for (const auto& channel : share_.channels) stubs_.emplace_back(channel);
  for (size_t slot = 0; slot < calls_.size(); ++slot) calls_[slot].slot = slot;
}

void UnaryWorker::Send(size_t slot) {
  static const std::string kMethod = "/widelane.v1.Scoring/Score";
  Call& call = calls_[slot];
  const std::lock_guard lock(call.mutex);
  call.reader.reset();
  grpc::ClientContext& context = call.context.emplace();
  if (plan_.options.deadline.count() > 0) {
    context.set_deadline(std::chrono::system_clock::now() + plan_.options.deadline);
  }
  call.reader =
      stubs_[slot % stubs_.size()].PrepareUnaryCall(&context, kMethod, grpc::ByteBuffer(&RequestOf(slot), 1), &queue_);
  call.reader->StartCall();
  call.reader->Finish(&call.reply, &call.status, &call);
}

void UnaryWorker::OnEvent(void* tag, bool /*ok*/) {
  Call& call = *static_cast<Call*>(tag);
  if (call.status.ok()) {
    OnReply(call.slot, call.reply);
  } else {
    OnFailure(call.status.error_code(), call.status.error_message());
  }
  call.reply.Clear();
  Free(call.slot);
}

void UnaryWorker::CancelAll() {
  for (Call& call : calls_) {
    const std::lock_guard lock(call.mutex);
    if (call.context.has_value()) call.context->TryCancel();
  }
}

}  // namespace widelane::cli
