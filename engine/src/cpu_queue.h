// Threads that score batches on the CPU, for callers that may not do it themselves.

#ifndef WIDELANE_ENGINE_SRC_CPU_QUEUE_H_
#define WIDELANE_ENGINE_SRC_CPU_QUEUE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "backend.h"
#include "batch_task.h"
#include "device_meter.h"
#include "ring.h"

namespace widelane {

class CpuQueue {
 public:
  // `capacity` bounds the pieces waiting. Errors: what making a lane says.
  static absl::StatusOr<std::unique_ptr<CpuQueue>> Create(Device& cpu, BusyMeter& meter, size_t capacity,
                                                          PieceDone done);
  // After all pieces are done.
  ~CpuQueue();
  CpuQueue(const CpuQueue&) = delete;
  CpuQueue& operator=(const CpuQueue&) = delete;

  // Pieces waiting or being scored.
  size_t load() const { return load_.load(std::memory_order_acquire); }
  // Any thread.
  void Push(const Piece& piece);

 private:
  CpuQueue(BusyMeter& meter, size_t capacity, PieceDone done) : meter_(meter), done_(done), waiting_(capacity) {}
  void Work(Lane& lane);

  BusyMeter& meter_;
  const PieceDone done_;
  std::atomic<size_t> load_{0};
  std::mutex mutex_;
  std::condition_variable work_;
  Ring<Piece> waiting_;
  bool stopping_ = false;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::thread> threads_;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_CPU_QUEUE_H_
