// One request on its way through batches: what the batcher needs of it and what it gives back.

#ifndef WIDELANE_SERVER_BATCHING_SCORE_TASK_H_
#define WIDELANE_SERVER_BATCHING_SCORE_TASK_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "widelane/engine/csr.h"
#include "widelane/engine/engine.h"
#include "widelane/engine/route.h"
#include "widelane/engine/slab.h"
#include "widelane/engine/stages.h"

namespace widelane {

class TaskBatch;

// Which of those who wait goes first; the highest first.
enum class Priority : uint8_t { kHigh, kNormal, kLow };
inline constexpr size_t kPriorities = 3;
inline constexpr std::array<const char*, kPriorities> kPriorityNames = {"high", "normal", "low"};

// Where a task's time went. A task in one batch has that batch's times; over several batches times of work add up.
struct TaskTimes {
  StageTimes stages;  // all but reply
  int device = -1;    // of the last batch, index into Engine::devices()
  uint32_t batches = 0;
  uint64_t batch_rows = 0;  // of the last batch
  std::chrono::steady_clock::time_point results_ready;
};

// Owned by the front end. The batcher uses it from Submit until OnDone, from one thread at a time except where said.
class ScoreTask {
 public:
  virtual ~ScoreTask() = default;

  // Copies out the results of one segment, whose first row is row `first_row` of the request. Several segments at once.
  virtual void OnRows(const Slab& slab, const Segment& segment, uint64_t first_row) = 0;
  // Sees to it that Batcher::Continue is called soon, on a thread that may pack. Must not call it before it returns.
  virtual void Resume() = 0;
  // Exactly once for each Submit, the last call of all; the task may be reused inside.
  virtual void OnDone(const absl::Status& status) = 0;

 protected:
  // What is to be scored; set before Submit. `csr` has passed CheckShape, and it and `contexts` are unchanged until
  // OnDone.
  struct Work {
    CsrView csr;
    CsrShape shape;
    const ContextSums* contexts = nullptr;  // of a kind with contexts
    Priority priority = Priority::kNormal;
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
    std::shared_ptr<const LoadedModel> model;
    BatchKind kind;
    uint8_t wants = kWantScores;  // of a kind that gives all outputs
    std::chrono::steady_clock::time_point received;
  };
  Work work_;

  // For OnDone.
  uint64_t ignored_features() const { return ignored_; }
  const TaskTimes& times() const { return times_; }

 private:
  friend class Batcher;
  friend class TaskBatch;
  friend class TaskLines;

  // Room in a batch.
  struct Place {
    TaskBatch* batch = nullptr;
    bool rest = false;  // all that is left of it; how many rows that is the task counts itself
    size_t part = 0;    // else: of the batch
    Segment segment;    // and what may be written
  };

  void Start();
  bool HasRowsLeft() const { return cursor_->row() < work_.shape.rows; }
  bool HasDeadline() const { return work_.deadline != std::chrono::steady_clock::time_point::max(); }
  bool HasExpired(std::chrono::steady_clock::time_point now) const { return work_.deadline <= now; }
  void Fail(const absl::Status& status);
  void FailForDeadline();
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  uint32_t context_lines() const { return work_.contexts == nullptr ? 0 : work_.contexts->lines(); }
  // Adds those of a batch that had rows of the task.
  void AddTimes(const Slab& slab, std::chrono::nanoseconds queue, std::chrono::nanoseconds pack,
                std::chrono::steady_clock::time_point results_ready);
  // Takes one more reason to wait; false when the task is done.
  bool TryHold();
  // Drops one of the reasons to wait; the last calls OnDone.
  void Release();

  std::optional<RowCursor> cursor_;  // rows not yet claimed
  uint64_t entries_left_ = 0;
  Place place_;  // given to the task while it waited in line
  Place last_;   // claimed last; may be over
  uint32_t claims_ = 0;
  uint64_t ticket_ = 0;  // its place in line, from when it began to wait until it has claimed rows; 0: none
  bool in_line_ = false;
  ScoreTask* before_ = nullptr;  // in line
  ScoreTask* behind_ = nullptr;
  uint64_t ignored_ = 0;
  std::atomic<uint32_t> holds_{0};  // packing or waiting in line, each segment in a batch, whoever withdraws the task
  std::atomic<bool> failed_{false};
  std::mutex mutex_;     // segments of one task may finish at once
  absl::Status status_;  // the first failure
  TaskTimes times_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_BATCHING_SCORE_TASK_H_
