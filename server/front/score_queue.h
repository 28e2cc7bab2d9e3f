// One completion queue of gRPC with its threads and its pool of calls.

#ifndef WIDELANE_SERVER_FRONT_SCORE_QUEUE_H_
#define WIDELANE_SERVER_FRONT_SCORE_QUEUE_H_

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "grpcpp/completion_queue.h"
#include "server/front/score_call.h"
#include "server/front/scoring_service.h"

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
  // Waits until no call is left, which happens only once the gRPC server is shutting down. False when the time is over
  // first.
  bool WaitUntilIdle(std::chrono::milliseconds timeout);

  // For calls.
  void RequestCall(grpc::ServerContext& context, grpc::ByteBuffer& request,
                   grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>& writer, void* tag);
  void PostAnother();
  void Retire(ScoreCall& call);
  grpc::CompletionQueue& completion_queue() { return *completion_queue_; }

 private:
  void Run();

  FrontContext& context_;
  ScoringService& service_;
  const std::unique_ptr<grpc::ServerCompletionQueue> completion_queue_;
  std::vector<std::thread> threads_;

  std::mutex mutex_;
  std::condition_variable idle_;
  std::vector<std::unique_ptr<ScoreCall>> calls_;
  std::vector<ScoreCall*> free_;
  size_t live_ = 0;  // posted or running
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_SCORE_QUEUE_H_
