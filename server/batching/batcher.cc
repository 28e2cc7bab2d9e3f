#include "server/batching/batcher.h"

#include <algorithm>
#include <utility>

namespace widelane {

namespace {
using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;
}  // namespace

// A slab and whose rows are in it.
class TaskBatch : public BatchListener {
 public:
  struct Part {
    ScoreTask* task = nullptr;
    Segment segment;
    uint64_t first_row = 0;  // of the request
    nanoseconds pack{0};
  };

  explicit TaskBatch(Batcher& owner) : owner_(owner) {}
  void OnBatchDone(SlabHandle done) override { owner_.OnBatchDone(*this, std::move(done)); }

  SlabHandle slab;
  std::vector<Part> parts;
  size_t writers = 0;   // threads that are packing
  bool closed = false;  // takes no more; the last writer submits it
  Clock::time_point sealed;

 private:
  Batcher& owner_;
};

Batcher::Batcher(Engine& engine, BatchObserver& observer) : engine_(engine), observer_(observer) {}

Batcher::~Batcher() {
  std::unique_lock lock(mutex_);
  unused_.wait(lock, [this] { return in_use_ == 0; });
}

void Batcher::Submit(ScoreTask& task) {
  task.Start();
  Continue(task);
}

void Batcher::Continue(ScoreTask& task) {
  for (;;) {
    Place place = std::exchange(task.place_, {});
    if (place.batch == nullptr) {
      if (task.failed() || !task.HasRowsLeft()) break;
      if (const absl::Status wanted = task.CheckWanted(); !wanted.ok()) {
        task.Fail(wanted);
        break;
      }
      place = FindPlace(task);
      if (place.batch == nullptr) return;
    }
    // An empty slab takes any row that passed CheckShape, so this fails once at most before rows are packed.
    if (place.rest && !TakeRest(task, place)) continue;
    Pack(task, place);
  }
  task.Release();
}

Batcher::Place Batcher::FindPlace(ScoreTask& task) {
  const std::lock_guard lock(mutex_);
  TaskBatch* batch = FindOpen(task);
  // Those in line are the first to get a slab.
  if (batch == nullptr && lines_.empty()) batch = Open(task);
  if (batch != nullptr) return PlaceIn(*batch, task);
  GetInLine(task);
  return {};
}

// Counting the rows that fit can take long, so it is not done here: the batch is closed, and what is left of it belongs
// to the task.
Batcher::Place Batcher::PlaceIn(TaskBatch& batch, ScoreTask& task) {
  Place place;
  place.batch = &batch;
  ++batch.writers;
  const CsrShape room = batch.slab->Room();
  const CsrShape want{task.work_.shape.rows - task.cursor_->row(), task.entries_left_};
  if (want.rows <= room.rows && want.entries <= room.entries) {
    Claim(want, task, place);
  } else {
    place.rest = true;
    Close(batch);
  }
  return place;
}

void Batcher::Claim(const CsrShape& take, ScoreTask& task, Place& place) {
  TaskBatch& batch = *place.batch;
  task.entries_left_ -= take.entries;
  task.ticket_ = 0;
  task.holds_.fetch_add(1, std::memory_order_relaxed);
  place.part = batch.parts.size();
  place.segment = *batch.slab->Claim(take.rows, take.entries, task.work_.wants);
  batch.parts.push_back({&task, place.segment, task.cursor_->row(), nanoseconds(0)});
}

bool Batcher::TakeRest(ScoreTask& task, Place& place) {
  TaskBatch& batch = *place.batch;
  // The batch is closed: nobody else claims room in it.
  const CsrShape take = RowsThatFit(*task.cursor_, task.work_.shape.rows - task.cursor_->row(), batch.slab->Room());
  {
    const std::lock_guard lock(mutex_);
    if (take.rows > 0) {
      Claim(take, task, place);
      return true;
    }
    if (--batch.writers != 0) return false;
  }
  Send(batch, Where::kAnywhere);
  return false;
}

void Batcher::Pack(ScoreTask& task, const Place& place) {
  const Clock::time_point begin = Clock::now();
  const absl::StatusOr<uint64_t> ignored = PackRows(task.work_.csr, *task.cursor_, *place.batch->slab, place.segment);
  if (ignored.ok()) {
    task.ignored_ += *ignored;
  } else {
    task.Fail(ignored.status());
  }
  Commit(*place.batch, place.part, Clock::now() - begin);
}

void Batcher::Commit(TaskBatch& batch, size_t part, nanoseconds pack) {
  {
    const std::lock_guard lock(mutex_);
    batch.parts[part].pack = pack;
    --batch.writers;
    // Nobody else may join once a device waits for it; else a stream of writers could keep the batch open for ever.
    // Asked under the lock: a device that becomes free later finds the batch in TakeCommitted.
    if (!batch.closed && engine_.HasIdleDevice(*batch.slab->model())) Close(batch);
    if (!batch.closed || batch.writers != 0) return;
  }
  Send(batch, Where::kAnywhere);
}

void Batcher::Send(TaskBatch& batch, Where where) {
  batch.slab->Seal();
  batch.sealed = Clock::now();
  engine_.Submit(std::move(batch.slab), batch, where);
}

void Batcher::OnBatchDone(TaskBatch& batch, SlabHandle slab) {
  // The device first: it works on the next batch while this one's results are handed out.
  TaskBatch* next = nullptr;
  {
    const std::lock_guard lock(mutex_);
    next = TakeCommitted();
  }
  if (next != nullptr) Send(*next, Where::kEngineThreads);

  Deliver(batch, *slab);

  slab.reset();
  std::vector<ScoreTask*> served;
  {
    const std::lock_guard lock(mutex_);
    batch.parts.clear();
    batch.closed = false;
    free_.push_back(&batch);
    while (ServeOldest(served)) {
    }
    if (--in_use_ == 0) unused_.notify_all();
  }
  // The batcher may be gone by now, unless somebody was served.
  for (ScoreTask* task : served) task->Resume();
}

void Batcher::Deliver(const TaskBatch& batch, const Slab& slab) {
  const Clock::time_point now = Clock::now();
  observer_.OnBatch(slab);
  observer_.OnDeviceFailures(engine_.device_failures());
  for (const TaskBatch::Part& part : batch.parts) {
    ScoreTask& task = *part.task;
    const nanoseconds queue = std::max(nanoseconds(0), nanoseconds(batch.sealed - task.work_.received) - part.pack);
    observer_.OnSegment(slab.device, queue, part.pack);
    if (!slab.status.ok()) task.Fail(slab.status);
    if (!task.failed()) task.OnRows(slab, part.segment, part.first_row);
    {
      const std::lock_guard lock(task.mutex_);
      TaskTimes& times = task.times_;
      for (size_t stage = 0; stage < kStages; ++stage) times.stages.time[stage] += slab.stages.time[stage];
      times.stages[Stage::kPack] += part.pack;
      times.stages[Stage::kQueue] = std::max(times.stages[Stage::kQueue], queue);
      times.device = slab.device;
      times.batch_rows = slab.rows();
      ++times.batches;
      times.results_ready = now;
    }
    task.Release();
  }
}

TaskBatch* Batcher::FindOpen(const ScoreTask& task) {
  for (TaskBatch* batch : open_) {
    if (batch->slab->model() == task.work_.model && batch->slab->kind() == task.work_.kind) return batch;
  }
  return nullptr;
}

TaskBatch* Batcher::Open(const ScoreTask& task) {
  SlabHandle slab = engine_.TakeSlab();
  if (slab == nullptr) return nullptr;
  if (free_.empty()) {
    batches_.push_back(std::make_unique<TaskBatch>(*this));
    free_.push_back(batches_.back().get());
  }
  TaskBatch* batch = free_.back();
  free_.pop_back();
  slab->Open(task.work_.model, task.work_.kind);
  batch->slab = std::move(slab);
  open_.push_back(batch);
  ++in_use_;
  return batch;
}

void Batcher::Close(TaskBatch& batch) {
  batch.closed = true;
  open_.erase(std::find(open_.begin(), open_.end(), &batch));
}

// The oldest open batch that nobody is writing, closed, if a device is idle. Batches that are being written need no
// look: their writers ask for an idle device when they are done.
TaskBatch* Batcher::TakeCommitted() {
  for (TaskBatch* batch : open_) {
    if (batch->writers != 0 || !engine_.HasIdleDevice(*batch->slab->model())) continue;
    Close(*batch);
    return batch;
  }
  return nullptr;
}

// At the end, or where it was before if it could not use what it was given.
void Batcher::GetInLine(ScoreTask& task) {
  if (task.ticket_ == 0) task.ticket_ = ++last_ticket_;
  const ScoreTask::Work& work = task.work_;
  const auto line = std::find_if(lines_.begin(), lines_.end(), [&work](const Line& candidate) {
    return candidate.model == work.model.get() && candidate.kind == work.kind;
  });
  if (line == lines_.end()) {
    lines_.push_back({work.model.get(), work.kind, {&task}});
    return;
  }
  line->tasks.insert(std::upper_bound(line->tasks.begin(), line->tasks.end(), &task,
                                      [](const ScoreTask* a, const ScoreTask* b) { return a->ticket_ < b->ticket_; }),
                     &task);
}

// Gives a free slab to the one who has waited longest and to all behind it in its line who fit in as well. Room is
// claimed here, not when they go on: so nobody is passed by, and no slab is left lying by one who does not want it any
// more. False when nobody waits or there is no slab.
bool Batcher::ServeOldest(std::vector<ScoreTask*>& served) {
  if (lines_.empty()) return false;
  const auto line = std::min_element(lines_.begin(), lines_.end(), [](const Line& a, const Line& b) {
    return a.tasks.front()->ticket_ < b.tasks.front()->ticket_;
  });
  TaskBatch* batch = nullptr;
  while (!line->tasks.empty()) {
    ScoreTask& task = *line->tasks.front();
    if (const absl::Status wanted = task.CheckWanted(); !wanted.ok()) {
      task.Fail(wanted);
    } else {
      if (batch == nullptr) batch = Open(task);
      if (batch == nullptr) return false;
      task.place_ = PlaceIn(*batch, task);
    }
    line->tasks.pop_front();
    served.push_back(&task);
    if (batch == nullptr) continue;
    if (!batch->closed && batch->slab->Room().rows == 0) Close(*batch);
    if (batch->closed) break;
  }
  if (line->tasks.empty()) lines_.erase(line);
  return true;
}

}  // namespace widelane
