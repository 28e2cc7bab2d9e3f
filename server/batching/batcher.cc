// How a request gets into batches, and these to the engine and back.

#include "server/batching/batcher.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace widelane {

namespace {

using std::chrono::nanoseconds;

// A batch takes no more rows this long before its nearest deadline.
constexpr std::chrono::milliseconds kTimeToScore{1};

uint64_t LimitOf(uint32_t option) { return option == 0 ? std::numeric_limits<uint64_t>::max() : option; }

uint64_t Left(uint64_t limit, uint64_t taken) { return limit > taken ? limit - taken : 0; }

}  // namespace

Batcher::Batcher(Engine& engine, BatchObserver& observer, const BatchingOptions& options, Clock& clock, Tracer* tracer)
    : engine_(engine),
      observer_(observer),
      clock_(clock),
      tracer_(tracer),
      max_delay_(options.max_delay),
      slabs_(engine.options().slabs),
      max_rows_(LimitOf(options.max_rows)),
      max_entries_(LimitOf(options.max_entries)),
      watch_([this] { Watch(); }) {}

Batcher::~Batcher() {
  {
    std::unique_lock lock(mutex_);
    unused_.wait(lock, [this] { return in_use_ == 0; });
    stopping_ = true;
    watch_changed_.notify_all();
  }
  watch_.join();
}

void Batcher::Submit(ScoreTask& task) {
  task.Start();
  Continue(task);
}

void Batcher::Continue(ScoreTask& task) {
  for (;;) {
    Place place = std::exchange(task.place_, {});
    if (place.batch == nullptr) {
      if (!task.failed() && task.HasDeadline() && task.HasExpired(clock_.Now())) task.FailForDeadline();
      if (task.failed() || !task.HasRowsLeft()) break;
      if (!FindPlace(task, place)) return;
      if (place.batch == nullptr) continue;
    }
    if (place.rest && !TakeRest(task, place)) continue;
    Pack(task, place);
  }
  task.Release();
}

bool Batcher::FindPlace(ScoreTask& task, Place& place) {
  const ScoreTask::Work& work = task.work_;
  std::vector<ScoreTask*> served;
  bool found = false;
  {
    const std::lock_guard lock(mutex_);
    // Who withdraws a task looks for it under this lock: not after now, then.
    if (task.failed()) return true;
    TaskBatch* batch = FindOpen(task);
    if (batch == nullptr && lines_.empty() && MayTakeSlab(work.model.get(), work.priority)) batch = Open(task);
    if (batch != nullptr) {
      place = PlaceIn(*batch, task);
      return true;
    }
    lines_.Add(task);
    WatchFor(work.deadline);
    ServeLines(served);
    if (const auto own = std::find(served.begin(), served.end(), &task); own != served.end()) {
      served.erase(own);
      place = std::exchange(task.place_, {});
      found = true;
    }
  }
  for (ScoreTask* other : served) other->Resume();
  return found;
}

TaskBatch* Batcher::FindOpen(const ScoreTask& task) {
  for (TaskBatch* batch : unsent_) {
    if (batch->closed || batch->model != task.work_.model.get() || batch->slab->kind() != task.work_.kind) continue;
    const bool has_room = task.context_lines() <= batch->slab->RoomForLines();
    if (has_room && clock_.Now() < batch->due) return batch;
    batch->Close(has_room ? batch->due_reason : CloseReason::kRoom);
    return nullptr;
  }
  return nullptr;
}

TaskBatch* Batcher::Open(const ScoreTask& task) {
  SlabHandle slab = engine_.TakeSlab();
  if (slab == nullptr) return nullptr;
  if (free_.empty()) {
    batches_.push_back(std::make_unique<TaskBatch>(*this, batches_.size()));
    free_.push_back(batches_.back().get());
  }
  TaskBatch* batch = free_.back();
  free_.pop_back();
  slab->Open(task.work_.model, task.work_.kind);
  batch->Open(std::move(slab));
  TraceOpen(task, *batch);
  unsent_.push_back(batch);
  turns_.Opened(batch->model);
  ++slabs_in_use_;
  ++in_use_;
  return batch;
}

CsrShape Batcher::Room(const TaskBatch& batch) const {
  const Slab& slab = *batch.slab;
  const CsrShape room = slab.Room();
  return {std::min(room.rows, Left(max_rows_, slab.rows())),
          std::min(room.entries, Left(max_entries_, slab.entries()))};
}

// Counting the rows that fit can take long, so it is not done here: the batch is closed, and what is left of it belongs
// to the task.
Batcher::Place Batcher::PlaceIn(TaskBatch& batch, ScoreTask& task) {
  Place place;
  place.batch = &batch;
  ++batch.writers;
  const CsrShape room = Room(batch);
  const CsrShape want{task.work_.shape.rows - task.cursor_->row(), task.entries_left_};
  if (want.rows <= room.rows && want.entries <= room.entries) {
    const CloseReason full = WhyFull(batch, want);
    Claim(want, task, place);
    if (want.rows == room.rows || want.entries == room.entries) batch.Close(full);
  } else {
    place.rest = true;
    batch.Close(WhyFull(batch, want));
  }
  return place;
}

// For a batch that `want` fills or does not fit into.
CloseReason Batcher::WhyFull(const TaskBatch& batch, const CsrShape& want) const {
  const CsrShape slab = batch.slab->Room();
  const CsrShape room = Room(batch);
  if (want.rows >= room.rows) return room.rows < slab.rows ? CloseReason::kRows : CloseReason::kRoom;
  return room.entries < slab.entries ? CloseReason::kEntries : CloseReason::kRoom;
}

void Batcher::Claim(const CsrShape& take, ScoreTask& task, Place& place) {
  TaskBatch& batch = *place.batch;
  const ScoreTask::Work& work = task.work_;
  task.entries_left_ -= take.entries;
  task.ticket_ = 0;
  ++task.claims_;
  task.holds_.fetch_add(1, std::memory_order_relaxed);
  place.part = batch.parts.size();
  place.segment = *batch.slab->Claim(take.rows, take.entries, work.wants, task.context_lines());
  task.last_ = place;
  const TimePoint delayed = work.received + max_delay_;
  const TimePoint in_time = work.deadline - kTimeToScore;
  if (in_time < delayed) return batch.Add(task, place.segment, in_time, CloseReason::kDeadline);
  batch.Add(task, place.segment, delayed, CloseReason::kDelay);
}

bool Batcher::TakeRest(ScoreTask& task, Place& place) {
  TaskBatch& batch = *place.batch;
  // The batch is closed: nobody else claims room in it.
  const uint64_t rows_left = task.work_.shape.rows - task.cursor_->row();
  const CsrShape room = Room(batch);
  CsrShape take = RowsThatFit(*task.cursor_, rows_left, room);
  const CsrShape binding = take.rows == room.rows ? CsrShape{room.rows, 0} : CsrShape{0, room.entries};
  const CloseReason full = WhyFull(batch, binding);
  // An empty slab takes any row that passed CheckShape.
  if (take.rows == 0 && batch.slab->rows() == 0) take = RowsThatFit(*task.cursor_, 1, batch.slab->Room());
  Next next;
  {
    const std::lock_guard lock(mutex_);
    batch.close_reason = full;
    if (take.rows > 0 && !task.failed()) {
      Claim(take, task, place);
      return true;
    }
    next = LetGo(batch, Where::kAnywhere);
  }
  SendAll(next, Where::kAnywhere);
  return false;
}

void Batcher::Pack(ScoreTask& task, const Place& place) {
  const TimePoint begin = clock_.Now();
  if (task.failed()) {
    place.batch->slab->Void(place.segment);
  } else {
    const absl::StatusOr<uint64_t> ignored =
        PackRows(task.work_.csr, *task.cursor_, *place.batch->slab, place.segment, task.work_.contexts);
    if (ignored.ok()) {
      task.ignored_ += *ignored;
    } else {
      task.Fail(ignored.status());
    }
  }
  Commit(task, place, begin);
}

void Batcher::Commit(ScoreTask& task, const Place& place, TimePoint pack_begin) {
  const TimePoint pack_end = clock_.Now();
  Next next;
  bool dropped = false;
  {
    const std::lock_guard lock(mutex_);
    TaskBatch::Part& part = place.batch->parts[place.part];
    part.pack = pack_end - pack_begin;
    part.pack_end = pack_end;
    if (task.work_.traced != 0) part.packer = ThreadNumber();
    part.packed = true;
    dropped = task.failed();
    if (dropped) place.batch->Drop(part);
    next = LetGo(*place.batch, Where::kAnywhere);
  }
  SendAll(next, Where::kAnywhere);
  if (dropped) task.Release();
}

void Batcher::SendAll(Next next, Where where) {
  while (next.batch != nullptr) {
    Send(*next.batch, where);
    if (!next.to_device && !next.more) return;
    // The calling thread has had its batch.
    where = Where::kEngineThreads;
    const std::lock_guard lock(mutex_);
    if (next.to_device) --submitting_;
    next = Pick(where);
  }
}

Waiting Batcher::waiting(const LoadedModel* model) const {
  const std::lock_guard lock(mutex_);
  Waiting sum;
  for (const TaskLine& line : lines_.lines()) {
    if (model == nullptr || line.model == model) sum += line.waiting;
  }
  for (const TaskBatch* batch : unsent_) {
    if (model == nullptr || batch->model == model) sum += batch->waiting;
  }
  return sum;
}

void Batcher::OnCoreFree() {
  if (!waits_.load(std::memory_order_relaxed)) return;
  Next next;
  {
    const std::lock_guard lock(mutex_);
    next = Pick(Where::kEngineThreads);
  }
  SendAll(next, Where::kEngineThreads);
}

void Batcher::Send(TaskBatch& batch, Where where) {
  batch.sealed = clock_.Now();
  if (batch.deadline <= batch.sealed) LeaveOutExpired(batch);
  if (batch.live == 0) {
    batch.slab.reset();
    return Retire(batch, /*counted=*/true);
  }
  observer_.OnBatchClosed(batch.close_reason);
  batch.slab->Seal();
  engine_.Submit(std::move(batch.slab), batch, where, Route::kAuto, batch.Callers());
}

void Batcher::LeaveOutExpired(TaskBatch& batch) {
  for (TaskBatch::Part& part : batch.parts) {
    ScoreTask* const task = part.task;
    if (task == nullptr || !task->HasExpired(batch.sealed)) continue;
    task->FailForDeadline();
    batch.slab->Void(part.segment);
    batch.Drop(part);
    task->Release();
  }
}

void Batcher::OnBatchDone(TaskBatch& batch, SlabHandle slab) {
  bool counted = true;
  TraceBatch(batch, *slab);
  // The device first: it works on the next batch while this one's results are handed out. A batch that is overlooked
  // here, because it begins to wait just now, is found in Retire.
  if (waits_.load(std::memory_order_relaxed)) {
    Next next;
    {
      const std::lock_guard lock(mutex_);
      --in_engine_;
      counted = false;
      next = Pick(Where::kEngineThreads);
    }
    SendAll(next, Where::kEngineThreads);
  }
  Deliver(batch, *slab);
  slab.reset();
  Retire(batch, counted);
}

void Batcher::Deliver(const TaskBatch& batch, const Slab& slab) {
  const TimePoint now = clock_.Now();
  const StageTimes shares = BatchShares(slab);
  observer_.OnBatch(slab);
  observer_.OnDeviceFailures(engine_.device_failures());
  for (const TaskBatch::Part& part : batch.parts) {
    if (part.task == nullptr) continue;
    ScoreTask& task = *part.task;
    if (!slab.status.ok()) task.Fail(slab.status);
    if (task.HasExpired(now)) task.FailForDeadline();
    if (!task.failed()) task.OnRows(slab, part.segment, part.first_row);
    task.AddTimes(slab, shares, part.pack);
    TracePart(batch, part, slab.ended);
    task.Release();
  }
}

void Batcher::Retire(TaskBatch& batch, bool counted) {
  std::vector<ScoreTask*> served;
  Next next;
  {
    const std::lock_guard lock(mutex_);
    if (counted) --in_engine_;
    --slabs_in_use_;
    turns_.Ended(batch.model, lines_.Has(batch.model));
    ServeLines(served);
    next = Pick(Where::kEngineThreads);
    if (served.empty() && next.batch == nullptr) return Recycle(batch);
  }
  SendAll(next, Where::kEngineThreads);
  for (ScoreTask* task : served) task->Resume();
  // As long as this batch is in use the batcher is there.
  const std::lock_guard lock(mutex_);
  Recycle(batch);
}

void Batcher::Recycle(TaskBatch& batch) {
  free_.push_back(&batch);
  if (--in_use_ == 0) unused_.notify_all();
}

}  // namespace widelane
