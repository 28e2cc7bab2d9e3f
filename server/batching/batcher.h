// Gathers requests of many callers into batches.
//
// There is at most one open batch for each model and kind. A thread claims room under a short lock and packs outside
// it. A batch leaves when a device is idle, when the next rows do not fit, or when a device becomes free. A request
// that is larger than a batch is cut by rows. When no slab is free a request waits in line without a thread; a slab
// that comes back goes to whoever has waited longest. README.md has the picture.

#ifndef WIDELANE_SERVER_BATCHING_BATCHER_H_
#define WIDELANE_SERVER_BATCHING_BATCHER_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "server/batching/score_task.h"
#include "widelane/engine/engine.h"

namespace widelane {

// Told of each batch that is done; for metrics. Any thread of the engine.
class BatchObserver {
 public:
  virtual ~BatchObserver() = default;
  virtual void OnBatch(const Slab& slab) = 0;
  // Time one segment of the batch waited for its slab to be closed, and time it took to pack.
  virtual void OnSegment(int device, std::chrono::nanoseconds queue, std::chrono::nanoseconds pack) = 0;
  // Engine::device_failures, after each batch.
  virtual void OnDeviceFailures(uint64_t failures) = 0;
};

class Batcher {
 public:
  // Both outlive the batcher.
  Batcher(Engine& engine, BatchObserver& observer);
  // All tasks are done; waits until the engine's threads have let go of the last batch.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  const Engine& engine() const { return engine_; }

  // Takes a task; any thread. Packs on this thread, may score on it, and may call OnDone inside.
  void Submit(ScoreTask& task);
  // Goes on with a task after its Resume was called.
  void Continue(ScoreTask& task);

 private:
  friend class TaskBatch;
  using Place = ScoreTask::Place;
  // Tasks that may share batches and wait for a slab, in order. There is no open batch for them.
  struct Line {
    const LoadedModel* model;
    BatchKind kind;
    std::deque<ScoreTask*> tasks;  // never empty
  };

  // Room for the task's next rows. Without a batch: the task waits in line, and is not this thread's any more.
  Place FindPlace(ScoreTask& task);
  // Claims the rows that fit into a batch's rest. False when not one does.
  bool TakeRest(ScoreTask& task, Place& place);
  void Pack(ScoreTask& task, const Place& place);
  void Commit(TaskBatch& batch, size_t part, std::chrono::nanoseconds pack);
  void Send(TaskBatch& batch, Where where);
  void OnBatchDone(TaskBatch& batch, SlabHandle slab);
  void Deliver(const TaskBatch& batch, const Slab& slab);

  // With the lock held.
  TaskBatch* FindOpen(const ScoreTask& task);
  TaskBatch* Open(const ScoreTask& task);
  void Close(TaskBatch& batch);
  TaskBatch* TakeCommitted();
  Place PlaceIn(TaskBatch& batch, ScoreTask& task);
  void Claim(const CsrShape& take, ScoreTask& task, Place& place);
  void GetInLine(ScoreTask& task);
  bool ServeOldest(std::vector<ScoreTask*>& served);

  Engine& engine_;
  BatchObserver& observer_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<TaskBatch>> batches_;  // all there ever were; as many as slabs, or a few more
  std::vector<TaskBatch*> free_;
  std::vector<TaskBatch*> open_;  // oldest first; no more than slabs, so a search is short
  size_t in_use_ = 0;             // batches that are not free
  std::condition_variable unused_;
  std::vector<Line> lines_;
  uint64_t last_ticket_ = 0;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_BATCHING_BATCHER_H_
