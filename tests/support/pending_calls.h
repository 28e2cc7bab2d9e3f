// Many calls of Score at once without a thread for each.

#ifndef WIDELANE_TESTS_SUPPORT_PENDING_CALLS_H_
#define WIDELANE_TESTS_SUPPORT_PENDING_CALLS_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/support/rpc.h"
#include "widelane/v1/scoring.grpc.pb.h"

namespace widelane::test {

// Calls have numbers in the order in which they were sent. Any thread, but Send from one at a time.
class PendingCalls {
 public:
  PendingCalls();
  // Cancels what is left.
  ~PendingCalls();
  PendingCalls(const PendingCalls&) = delete;
  PendingCalls& operator=(const PendingCalls&) = delete;

  size_t Send(v1::Scoring::Stub& stub, const v1::ScoreRequest& request,
              std::chrono::milliseconds deadline = kCallLimit);
  void Cancel(size_t call);

  bool done(size_t call) const;
  // How many are done.
  size_t done() const;
  // How many ended with this code.
  size_t Ended(grpc::StatusCode code) const;
  // Waits for one, or for all.
  const ScoreResult& Wait(size_t call);
  void WaitForAll();

 private:
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::ScoreReply>> reader;
    ScoreResult result;
    bool done = false;
  };

  void Run();

  grpc::CompletionQueue queue_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call> calls_;
  size_t done_ = 0;
  std::thread thread_;
};

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_PENDING_CALLS_H_
