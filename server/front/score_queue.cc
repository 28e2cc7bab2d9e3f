#include "server/front/score_queue.h"

#include <utility>

namespace widelane {

namespace {
// Calls gRPC can hand over before a thread has come to post another one. Each may hold a message that nobody has looked
// at yet.
constexpr size_t kPostedCalls = 128;
constexpr size_t kPostedStreams = 4;
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
  for (size_t i = 0; i < kPostedCalls; ++i) PostUnary();
  for (size_t i = 0; i < kPostedStreams; ++i) PostStream();
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

void ScoreQueue::Drain() {
  draining_.store(true, std::memory_order_release);
  std::vector<StreamCall*> streams;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& stream : streams_.calls) streams.push_back(stream.get());
  }
  for (StreamCall* stream : streams) stream->Drain();
}

bool ScoreQueue::WaitUntilIdle(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, timeout, [this] { return live_ == 0; });
}

void ScoreQueue::RequestUnary(grpc::ServerContext& context, grpc::ByteBuffer& request,
                              grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>& writer, void* tag) {
  service_.RequestScore(&context, &request, &writer, completion_queue_.get(), completion_queue_.get(), tag);
}

void ScoreQueue::RequestStream(grpc::ServerContext& context, StreamCall::Stream& stream, void* tag) {
  service_.RequestScoreStream(&context, &stream, completion_queue_.get(), completion_queue_.get(), tag);
}

template <typename Call>
void ScoreQueue::Post(Pool<Call>& pool) {
  Call* call = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (pool.free.empty()) {
      pool.calls.push_back(std::make_unique<Call>(context_, *this));
      pool.free.push_back(pool.calls.back().get());
    }
    call = pool.free.back();
    pool.free.pop_back();
    ++live_;
  }
  call->Post();
}

template <typename Call>
void ScoreQueue::Retire(Pool<Call>& pool, Call& call) {
  const std::lock_guard lock(mutex_);
  pool.free.push_back(&call);
  if (--live_ == 0) idle_.notify_all();
}

template void ScoreQueue::Post(Pool<UnaryCall>&);
template void ScoreQueue::Post(Pool<StreamCall>&);
template void ScoreQueue::Retire(Pool<UnaryCall>&, UnaryCall&);
template void ScoreQueue::Retire(Pool<StreamCall>&, StreamCall&);

void ScoreQueue::Run() {
  SoloScorer solo;
  void* tag = nullptr;
  bool ok = false;
  while (completion_queue_->Next(&tag, &ok)) {
    const auto* known = static_cast<const QueueTag*>(tag);
    known->user->OnEvent(known->event, ok, solo);
  }
}

}  // namespace widelane
