// Gathers requests of many callers into batches.
//
// There is at most one open batch for each model and kind. A thread claims room under a short lock and packs outside
// it. A batch leaves when a device can start it: at once if one is idle, else it waits here, not in the engine, so that
// what is unwanted never starts and what is urgent need not wait behind it. While it waits it is open for more rows,
// until it is full (max_rows, max_entries, the slab) or due: max_delay after its first rows came, or when its nearest
// deadline demands that it goes. A request that is larger than a batch is cut by rows. When there is no slab a request
// waits in line without a thread.
//
// Of what waits goes first: the highest priority, then the model served longest ago, then what is due first. What is
// passed by by a higher priority too often goes all the same. One thread, the watch, ends requests whose time is over.
// README.md has the picture.

#ifndef WIDELANE_SERVER_BATCHING_BATCHER_H_
#define WIDELANE_SERVER_BATCHING_BATCHER_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "server/batching/clock.h"
#include "server/batching/model_turns.h"
#include "server/batching/score_task.h"
#include "server/batching/task_batch.h"
#include "server/batching/task_lines.h"
#include "server/observe/trace/tracer.h"
#include "widelane/engine/engine.h"

namespace widelane {

struct BatchingOptions {
  // How long a batch that waits for a device stays open for more requests.
  std::chrono::microseconds max_delay{5000};
  uint32_t max_rows = 0;     // of a batch; 0: what a slab holds
  uint32_t max_entries = 0;  // the same; a longer row goes alone
};

// Told of each batch; for metrics. Any thread.
class BatchObserver {
 public:
  virtual ~BatchObserver() = default;
  // It goes to the engine.
  virtual void OnBatchClosed(CloseReason reason) = 0;
  // It is done.
  virtual void OnBatch(const Slab& slab) = 0;
  // Engine::device_failures, after each batch.
  virtual void OnDeviceFailures(uint64_t failures) = 0;
};

class Batcher {
 public:
  // All outlive the batcher; `tracer` may be null.
  Batcher(Engine& engine, BatchObserver& observer, const BatchingOptions& options, Clock& clock,
          Tracer* tracer = nullptr);
  // All tasks are done; waits until the engine's threads have let go of the last batch.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  const Engine& engine() const { return engine_; }
  const Clock& clock() const { return clock_; }

  // Takes a task; any thread. Packs on this thread, may score on it, and may call OnDone inside. A task whose deadline
  // passes before all of it has been sent to the engine is done with DEADLINE_EXCEEDED within a few milliseconds; rows
  // that were not sent are not scored.
  void Submit(ScoreTask& task);
  // Goes on with a task after its Resume was called.
  void Continue(ScoreTask& task);
  // What is packed or in line, and has not been handed to the engine: of one model, or (null) of all.
  Waiting waiting(const LoadedModel* model = nullptr) const;
  // A core that scored without the batcher is free again: a batch may have waited for it. Takes no lock unless one
  // waits.
  void OnCoreFree();
  // Nobody wants the task any more: ends it with `status` as if its deadline had passed. Any thread, at any time
  // between Submit and OnDone's return, and later as long as the task is not submitted anew; then it does nothing. May
  // call OnDone inside, or leave it to who is working on the task.
  void Withdraw(ScoreTask& task, const absl::Status& status);

 private:
  friend class TaskBatch;
  using Place = ScoreTask::Place;
  using TimePoint = Clock::TimePoint;
  // A task that ends before it has been scored, and the part of a waiting batch that it leaves; without: it was in
  // line.
  struct Gone {
    ScoreTask* task;
    TaskBatch* batch = nullptr;
    Segment segment;
    bool alone = false;  // nobody else's rows are in the batch
  };
  // What a look at the waiting batches found: one to send now, whether it goes to a device and not to the calling
  // thread, and whether others wait.
  struct Next {
    TaskBatch* batch = nullptr;
    bool to_device = false;
    bool more = false;
  };

  // Room for the task's next rows; nowhere if it has been withdrawn. False: it waits in line, and is not this thread's
  // any more.
  bool FindPlace(ScoreTask& task, Place& place);
  // Claims the rows that fit into a batch's rest. False when not one does.
  bool TakeRest(ScoreTask& task, Place& place);
  void Pack(ScoreTask& task, const Place& place);
  void Commit(ScoreTask& task, const Place& place, TimePoint pack_begin);
  void SendAll(Next next, Where where);
  void Send(TaskBatch& batch, Where where);
  // Voids what belongs to tasks whose time is over.
  void LeaveOutExpired(TaskBatch& batch);
  void OnBatchDone(TaskBatch& batch, SlabHandle slab);
  void Deliver(const TaskBatch& batch, const Slab& slab);
  // batcher_trace.cc; for batches and tasks that are in a timeline.
  void TraceOpen(const ScoreTask& task, TaskBatch& batch);
  void TraceBatch(const TaskBatch& batch, const Slab& slab);
  void TracePart(const TaskBatch& batch, const TaskBatch::Part& part, TimePoint done);
  // The batch is over and its slab given back; `counted`: among those that the engine has.
  void Retire(TaskBatch& batch, bool counted);
  void EndGone(std::vector<Gone>& gone);
  void Watch();

  // With the lock held.
  TaskBatch* FindOpen(const ScoreTask& task);
  TaskBatch* Open(const ScoreTask& task);
  bool MayTakeSlab(const LoadedModel* model, Priority priority) const;
  CsrShape Room(const TaskBatch& batch) const;
  Place PlaceIn(TaskBatch& batch, ScoreTask& task);
  void Claim(const CsrShape& take, ScoreTask& task, Place& place);
  CloseReason WhyFull(const TaskBatch& batch, const CsrShape& want) const;
  // `why` it would: kIdle or kLast.
  Start HowItStarts(const TaskBatch& batch, Where where, CloseReason& why) const;
  bool GoesBefore(const TaskBatch& a, const TaskBatch& b) const;
  bool GoesBefore(const TaskLine& a, const TaskLine& b) const;
  // A writer is done with the batch.
  Next LetGo(TaskBatch& batch, Where where);
  // The waiting batch that goes next, taken out; none when no device can start one.
  Next Pick(Where where);
  void TakeOut(TaskBatch& batch, CloseReason why);
  void Recycle(TaskBatch& batch);
  // Gives slabs to those in line, as long as there are any. They have places then, and are to be resumed.
  void ServeLines(std::vector<ScoreTask*>& served);
  bool ServeLine(std::vector<ScoreTask*>& served);
  void FillFrom(TaskLine& line, TaskBatch& batch, std::vector<ScoreTask*>& served);
  void DropPart(TaskBatch& batch, TaskBatch::Part& part, std::vector<Gone>& gone);
  void DropExpired(TaskBatch& batch, TimePoint now, std::vector<Gone>& gone);
  void WatchFor(TimePoint deadline);
  TimePoint NextExpiry() const;
  void TakeExpired(TimePoint now, std::vector<Gone>& gone);

  Engine& engine_;
  BatchObserver& observer_;
  Clock& clock_;
  Tracer* const tracer_;
  const std::chrono::microseconds max_delay_;
  const size_t slabs_;
  const uint64_t max_rows_;
  const uint64_t max_entries_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<TaskBatch>> batches_;  // all there ever were; as many as slabs, or a few more
  std::vector<TaskBatch*> free_;
  std::vector<TaskBatch*> unsent_;  // open or waiting; no more than slabs, so a search is short
  TaskLines lines_;                 // of models and kinds that have no open batch
  ModelTurns turns_;
  size_t slabs_in_use_ = 0;
  size_t in_engine_ = 0;            // batches
  size_t submitting_ = 0;           // of these: on their way to a device, which does not know of them yet
  size_t in_use_ = 0;               // batches that are not free
  std::atomic<bool> waits_{false};  // a hint: a batch waits for a device
  std::condition_variable unused_;

  std::condition_variable watch_changed_;
  TimePoint watch_until_ = TimePoint::max();  // when the watch looks next
  TimePoint last_expiry_ = TimePoint::min();
  bool stopping_ = false;
  std::thread watch_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_BATCHING_BATCHER_H_
