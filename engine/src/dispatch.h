// Lanes at work: threads that take pieces of batches from a bounded queue and score them.
//
// A LaneGroup owns one queue and one thread for each lane of its devices. All GPUs form one group, so that whichever
// lane is free takes the next piece; the CPU forms another for the batches that are too large for the calling thread.

#ifndef WIDELANE_ENGINE_SRC_DISPATCH_H_
#define WIDELANE_ENGINE_SRC_DISPATCH_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "backend.h"
#include "widelane/engine/engine.h"

namespace widelane {

struct BatchTask;

// Rows of a batch for one lane.
struct Piece {
  BatchTask* task = nullptr;
  uint32_t first_row = 0;
  uint32_t rows = 0;
};

// A submitted batch on its way through lanes. Made at start, one for each slab.
struct BatchTask {
  SlabHandle slab{nullptr, ReturnSlab{nullptr}};
  BatchListener* listener = nullptr;
  std::vector<Piece> pieces;  // what was cut, kept for its capacity
  std::atomic<uint32_t> pieces_left{0};
  std::mutex mutex;  // guards slab->status, slab->stages and slab->device while pieces run
};

// Scores one piece on `lane` of engine device `device` and notes times in the task. The error is the lane's.
absl::Status ScorePiece(Lane& lane, size_t device, const Piece& piece);

class LaneGroup {
 public:
  // Called on a lane's thread when the last piece of a batch is done.
  using TaskDone = void (*)(void* context, BatchTask& task);

  struct Member {
    size_t index;  // in Engine::devices()
    Device* device;
  };

  // `fallback` makes lanes (of engine device 0) that score what a failing lane could not; null: errors are the batch's.
  // `queue_size` bounds the pieces waiting. Threads run until the group is destroyed, which happens after all batches
  // are done.
  LaneGroup(std::vector<Member> members, Device* fallback, size_t queue_size, TaskDone done, void* context);
  ~LaneGroup();
  LaneGroup(const LaneGroup&) = delete;
  LaneGroup& operator=(const LaneGroup&) = delete;

  // Waits until every lane is made. The first error, if one could not be.
  absl::Status WaitForLanes();

  size_t lanes() const { return threads_.size(); }
  uint64_t failures() const { return failures_.load(std::memory_order_relaxed); }
  // Pieces waiting or being scored.
  size_t load() const { return load_.load(std::memory_order_acquire); }
  // Whether the device with this index has failed, and so is left alone.
  bool Failed(size_t index) const;

  // The caller knows that there is room: a batch makes at most lanes() pieces, or 1.
  void Push(const Piece& piece);

 private:
  struct DeviceState {
    Member member;
    bool failed = false;  // by its first error, for good; guarded by mutex_
  };

  void Work(DeviceState& state);
  // Whether a lane of `state` is to take a piece now: failed devices leave them to the others, while there are others.
  bool MayTake(const DeviceState& state) const { return queued_ > 0 && (!state.failed || healthy_ == 0); }
  void Run(Lane& lane, Lane* fallback, DeviceState& state, const Piece& piece, bool failed);
  void MarkFailed(DeviceState& state);

  Device* const fallback_;
  const TaskDone done_;
  void* const context_;
  std::vector<std::unique_ptr<DeviceState>> states_;
  std::atomic<uint64_t> failures_{0};
  std::atomic<size_t> load_{0};

  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable made_;
  std::vector<Piece> ring_;  // of fixed size
  size_t head_ = 0;
  size_t queued_ = 0;
  size_t lanes_made_ = 0;
  size_t healthy_ = 0;  // devices that have not failed
  absl::Status lane_status_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_DISPATCH_H_
