// Gathers requests of many callers into batches.
//
// There is at most one open batch for each model, with and without values. A thread claims room under a short lock and
// packs outside it. A batch leaves when a device is idle, when the next rows do not fit, or when a device becomes free.
// A request that is larger than a batch is cut by rows. When no slab is free a request waits in line without a thread.
// README.md has the picture.

#ifndef WIDELANE_SERVER_BATCHING_BATCHER_H_
#define WIDELANE_SERVER_BATCHING_BATCHER_H_

#include <chrono>
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
};

class Batcher {
 public:
  // Both outlive the batcher.
  Batcher(Engine& engine, BatchObserver& observer);
  // All tasks are done.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  const Engine& engine() const { return engine_; }

  // Takes a task; any thread. Packs on this thread, may score on it, and may call OnDone inside.
  void Submit(ScoreTask& task);
  // Goes on with a task after its Resume was called.
  void Continue(ScoreTask& task);

 private:
  class Batch;
  struct Claimed {
    Batch* batch = nullptr;      // null: the task waits in line, it is not this thread's any more
    size_t part = 0;             // of the batch
    Segment segment;             // what may be written
    Batch* displaced = nullptr;  // was too full for the task and is to be submitted
  };

  Claimed Claim(ScoreTask& task);
  void Pack(ScoreTask& task, const Claimed& claimed);
  void Commit(Batch& batch, size_t part, std::chrono::nanoseconds pack);
  void Send(Batch& batch, Where where);
  void OnBatchDone(Batch& batch, SlabHandle slab);
  void Deliver(const Batch& batch, const Slab& slab);
  void ResumeWaiting();

  // With the lock held.
  Batch* FindOpen(const ScoreTask& task);
  Batch* Open(const ScoreTask& task);
  void Close(Batch& batch);
  Batch* TakeCommitted();

  Engine& engine_;
  BatchObserver& observer_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Batch>> batches_;  // all there ever were; as many as slabs, or a few more
  std::vector<Batch*> free_;
  std::vector<Batch*> open_;        // oldest first; no more than slabs, so a search is short
  std::deque<ScoreTask*> waiting_;  // for a slab
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_BATCHING_BATCHER_H_
