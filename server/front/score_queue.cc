#include "server/front/score_queue.h"

#include <utility>

namespace widelane {

namespace {
// Calls gRPC can hand over before a thread has come to post another one.
constexpr size_t kPostedCalls = 128;
}  // namespace

ScoreQueue::ScoreQueue(FrontContext& context, ScoringService& service,
                       std::unique_ptr<grpc::ServerCompletionQueue> completion_queue)
    : context_(context), service_(service), completion_queue_(std::move(completion_queue)) {}

ScoreQueue::~ScoreQueue() {
  // No operation may begin on a queue that is shut down, so every call ends first.
  while (!WaitUntilIdle(std::chrono::seconds(1))) {
  }
  completion_queue_->Shutdown();
  if (threads_.empty()) Run();
  for (std::thread& thread : threads_) thread.join();
}

void ScoreQueue::Start(size_t threads) {
  for (size_t i = 0; i < kPostedCalls; ++i) PostAnother();
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

bool ScoreQueue::WaitUntilIdle(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, timeout, [this] { return live_ == 0; });
}

void ScoreQueue::RequestCall(grpc::ServerContext& context, grpc::ByteBuffer& request,
                             grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>& writer, void* tag) {
  service_.RequestScore(&context, &request, &writer, completion_queue_.get(), completion_queue_.get(), tag);
}

void ScoreQueue::PostAnother() {
  ScoreCall* call = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      calls_.push_back(std::make_unique<ScoreCall>(context_, *this));
      free_.push_back(calls_.back().get());
    }
    call = free_.back();
    free_.pop_back();
    ++live_;
  }
  call->Post();
}

void ScoreQueue::Retire(ScoreCall& call) {
  const std::lock_guard lock(mutex_);
  free_.push_back(&call);
  if (--live_ == 0) idle_.notify_all();
}

void ScoreQueue::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (completion_queue_->Next(&tag, &ok)) {
    const auto* known = static_cast<const ScoreCall::Tag*>(tag);
    known->call->OnEvent(known->event, ok);
  }
}

}  // namespace widelane
