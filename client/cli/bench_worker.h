// One thread of a load, with its completion queue and its share of the calls; in an open loop with a second thread that
// starts them in time, because a completion queue wakes up by milliseconds only.

#ifndef WIDELANE_CLIENT_CLI_BENCH_WORKER_H_
#define WIDELANE_CLIENT_CLI_BENCH_WORKER_H_

#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/cli/bench_load.h"
#include "client/cli/bench_meter.h"

namespace widelane::cli {

// What all workers of a load share.
struct LoadPlan {
  const LoadOptions& options;
  const std::vector<grpc::Slice>& requests;
  const uint64_t rows;
  const LoadWindow window;
  // Of the first reply to each request, 0 before there is one.
  std::vector<std::atomic<uint64_t>> checksums;
};

// A worker's part.
struct LoadShare {
  size_t slots = 1;  // calls in flight
  size_t streams = 1;
  double rate = 0;
  uint64_t seed = 1;
  std::vector<std::shared_ptr<grpc::Channel>> channels;
};

class LoadWorker {
 public:
  virtual ~LoadWorker() = default;

  // Until the window is over and all calls have ended. Once.
  void Run();
  // Ends the calls that are in flight; from another thread, after the window.
  void Cancel();
  // Once Run has returned, but for its calls().
  const LoadMeter& meter() const { return meter_; }
  // Planned calls that Cancel kept from being sent.
  uint64_t late_dropped() const { return late_dropped_; }

 protected:
  // A call that may be in flight.
  struct Slot {
    LoadTime start;
    size_t request = 0;
  };

  LoadWorker(LoadPlan& plan, LoadShare share);

  virtual void Open() {}
  // Sends the slot's request. Slots in use are all different, so that nothing else touches this one.
  virtual void Send(size_t slot) = 0;
  virtual void OnEvent(void* tag, bool ok) = 0;
  // No call is in flight, and none will be sent. Calls `queue_.Shutdown()` at once or when its own events are over.
  virtual void Close() { queue_.Shutdown(); }
  virtual void CancelAll() = 0;

  const grpc::Slice& RequestOf(size_t slot) const { return plan_.requests[slots_[slot].request]; }
  // The slot's answer, a whole ScoreReply.
  void OnReply(size_t slot, absl::string_view reply);
  // The same of one that may lie in several pieces, which are put together only where they must.
  void OnReply(size_t slot, const grpc::ByteBuffer& reply);
  void OnFailure(int code, absl::string_view message);
  // The slot's call has ended.
  void Free(size_t slot);
  // Slots `first`, `first` + `step` and so on cannot be used any more, and will not be freed. `first` is below `step`.
  void Retire(size_t first, size_t step);

  LoadPlan& plan_;
  const LoadShare share_;
  grpc::CompletionQueue queue_;
  std::vector<Slot> slots_;

 private:
  // Counts an answer, and says whether it has to be compared.
  bool Count(size_t slot, std::optional<uint64_t> rows, size_t bytes);
  void Compare(size_t slot, absl::string_view reply);
  void Pace();
  bool TakeSlot(LoadTime start, size_t& slot);
  void Prepare(size_t slot, LoadTime start);
  void CloseIfOver(std::unique_lock<std::mutex>& lock);  // which it may give back

  LoadMeter meter_;       // this thread's alone
  uint64_t replies_ = 0;  // likewise
  std::atomic<size_t> next_request_{0};
  std::mutex mutex_;
  std::vector<size_t> free_;
  std::deque<LoadTime> late_;  // planned, and no slot was free
  size_t live_;                // slots that are not retired
  bool sending_ = true;        // more calls may be planned
  bool closed_ = false;
  uint64_t late_dropped_ = 0;
};

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_WORKER_H_
