// One completion queue of gRPC with its threads and its pools of calls and streams.

#ifndef WIDELANE_SERVER_FRONT_SCORE_QUEUE_H_
#define WIDELANE_SERVER_FRONT_SCORE_QUEUE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "grpcpp/completion_queue.h"
#include "server/front/scoring_service.h"
#include "server/front/stream_call.h"
#include "server/front/unary_call.h"

namespace widelane {

class ScoreQueue {
 public:
  // All outlive the queue.
  ScoreQueue(FrontContext& context, ScoringService& service,
             std::unique_ptr<grpc::ServerCompletionQueue> completion_queue);
  // The gRPC server has been shut down; waits for all calls.
  ~ScoreQueue();

  // Begins to take calls; the gRPC server has been started.
  void Start(size_t threads);
  // Ends streams in order, those to come as well.
  void Drain();
  // Waits until no call is left, which happens only once the gRPC server is shutting down. False when the time is over
  // first.
  bool WaitUntilIdle(std::chrono::milliseconds timeout);

  // For calls.
  void RequestUnary(grpc::ServerContext& context, grpc::ByteBuffer& request,
                    grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>& writer, void* tag);
  void RequestStream(grpc::ServerContext& context, StreamCall::Stream& stream, void* tag);
  // Asks for one more.
  void PostUnary() { Post(unary_); }
  void PostStream() { Post(streams_); }
  // The call has ended and may be used again.
  void Retire(UnaryCall& call) { Retire(unary_, call); }
  void Retire(StreamCall& call) { Retire(streams_, call); }
  bool draining() const { return draining_.load(std::memory_order_acquire); }
  grpc::ServerCompletionQueue& completion_queue() { return *completion_queue_; }

 private:
  template <typename Call>
  struct Pool {
    std::vector<std::unique_ptr<Call>> calls;
    std::vector<Call*> free;
  };

  template <typename Call>
  void Post(Pool<Call>& pool);
  template <typename Call>
  void Retire(Pool<Call>& pool, Call& call);
  void Run();

  FrontContext& context_;
  ScoringService& service_;
  const std::unique_ptr<grpc::ServerCompletionQueue> completion_queue_;
  std::vector<std::thread> threads_;
  std::atomic<bool> draining_{false};

  std::mutex mutex_;
  std::condition_variable idle_;
  Pool<UnaryCall> unary_;
  Pool<StreamCall> streams_;
  size_t live_ = 0;  // posted or running
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_SCORE_QUEUE_H_
