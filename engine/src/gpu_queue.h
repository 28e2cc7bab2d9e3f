// One GPU at work: a bounded queue, a thread that starts pieces on free lanes, and a thread that waits for their
// results. So the next piece is on its way to the GPU while the one before is being computed and the one before that is
// handed out.
//
// Waking a thread takes longer than a small batch. So a caller may start a piece itself when nothing waits and a lane
// is free, and both threads look for work for a moment before they sleep. After its first error a GPU is left alone:
// most CUDA errors poison the context. Its pieces are then scored on the CPU, with the same bits.

#ifndef WIDELANE_ENGINE_SRC_GPU_QUEUE_H_
#define WIDELANE_ENGINE_SRC_GPU_QUEUE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backend.h"
#include "batch_task.h"
#include "device_meter.h"
#include "ring.h"

namespace widelane {

class GpuQueue {
 public:
  struct Place {
    size_t device;                   // index into Engine::devices(), as told to others
    size_t resident;                 // index of its weights in a LoadedModel
    absl::Span<DeviceMeter> meters;  // of the GPU, or of all that share a model
    DeviceMeter* cpu_meter;          // for pieces that the CPU scores instead
    size_t first_lane = 0;           // number of its first lane, as told to others
  };

  // `cpu` is engine device 0. `capacity` bounds the pieces waiting. Errors: what making a lane says.
  static absl::StatusOr<std::unique_ptr<GpuQueue>> Create(const Place& place, Device& device, Device& cpu,
                                                          size_t capacity, std::chrono::microseconds spin,
                                                          PieceDone done);
  // After all pieces are done.
  ~GpuQueue();
  GpuQueue(const GpuQueue&) = delete;
  GpuQueue& operator=(const GpuQueue&) = delete;

  const Place& place() const { return place_; }
  size_t lanes() const { return lanes_.size(); }
  // Pieces waiting or being scored, without trials, and the time these are predicted to take.
  size_t load() const { return load_.load(std::memory_order_acquire); }
  double backlog_ns() const { return static_cast<double>(backlog_ns_.load(std::memory_order_relaxed)); }
  // Whether the device has failed, and so is to be left alone.
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  // Pieces the device failed to score.
  uint64_t failures() const { return failures_.load(std::memory_order_relaxed); }

  // Any thread. With `start_here` the piece is started by the calling thread if it can be at once.
  void Push(const Piece& piece, bool start_here);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  // A piece that was started, or could not be.
  struct Started {
    Piece piece;
    Lane* lane = nullptr;
    TimePoint begun;
    absl::Status status;
    PieceRecord* record = nullptr;  // null: nobody asks
  };

  GpuQueue(const Place& place, Device& device, size_t capacity, std::chrono::microseconds spin, PieceDone done);
  void MakeLanes(Device& cpu);
  void Count(const Piece& piece, int pieces);
  void StartOn(Lane& lane, const Piece& piece);
  void CountBytes(const Started& started);
  void CountEnd(TimePoint ended);
  PieceRecord* RecordFor(const Lane& lane, const Piece& piece);
  void StartPieces();
  void FinishPieces();
  void Finish(Started& started);
  // Looks for `count` to be above 0 for a while.
  void Spin(const std::atomic<size_t>& count) const;

  const Place place_;
  Device& device_;
  const std::chrono::microseconds spin_;
  const PieceDone done_;
  std::atomic<size_t> load_{0};
  std::atomic<int64_t> backlog_ns_{0};
  std::atomic<bool> failed_{false};
  std::atomic<uint64_t> failures_{0};
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<PieceRecord> records_;  // by lane: of the piece that is on it
  std::unique_ptr<Lane> fallback_;    // on the CPU

  std::mutex mutex_;
  std::condition_variable startable_;  // a piece waits and a lane is free
  std::condition_variable started_;
  Ring<Piece> waiting_;
  std::vector<Lane*> free_lanes_;
  Ring<Started> running_;
  std::atomic<size_t> waiting_count_{0};  // of waiting_ and running_, to be looked at without the lock
  std::atomic<size_t> running_count_{0};
  bool lanes_made_ = false;
  absl::Status lane_status_;
  bool stopping_ = false;
  bool starter_gone_ = false;  // nothing is started any more
  std::thread starter_;
  std::thread finisher_;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_GPU_QUEUE_H_
