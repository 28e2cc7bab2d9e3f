// Which of those who wait goes next: batches for a device, and tasks for a slab.

#include <algorithm>
#include <utility>

#include "server/batching/batcher.h"

namespace widelane {

namespace {

// Whoever has been passed by this often by higher priorities goes next.
constexpr uint32_t kMostPassed = 7;
// With fewer slabs none is kept back.
constexpr size_t kLeastSlabsToKeepOne = 3;

}  // namespace

// When nothing is under way nobody would come for the batch later, so it goes whatever the engine says.
bool Batcher::MayStart(const TaskBatch& batch, Where where) const {
  if (in_engine_ == 0) return true;
  const Slab& slab = *batch.slab;
  return engine_.StartsAtOnce(*slab.model(), slab.kind(), slab.rows(), slab.entries(), where);
}

// Asks for a device under the lock: one that becomes free later finds the batch.
Batcher::Next Batcher::LetGo(TaskBatch& batch, Where where) {
  --batch.writers;
  if (batch.ready() && (batch.live == 0 || MayStart(batch, where))) return Pick(where);
  WatchFor(batch.deadline);
  if (batch.ready()) {
    waits_.store(true, std::memory_order_relaxed);
  } else if (!batch.closed && MayStart(batch, where)) {
    // Nobody else may join once a device waits for it; else a stream of writers could keep the batch open for ever.
    batch.closed = true;
  }
  return {};
}

Batcher::Next Batcher::Pick(Where where) {
  TaskBatch* best = nullptr;
  for (TaskBatch* batch : unsent_) {
    if (!batch->ready() || (best != nullptr && !GoesBefore(*batch, *best))) continue;
    if (batch->live == 0 || MayStart(*batch, where)) best = batch;
  }
  if (best != nullptr) TakeOut(*best);
  bool more = false;
  for (const TaskBatch* batch : unsent_) {
    if (!batch->ready()) continue;
    more = true;
    WatchFor(batch->deadline);
  }
  waits_.store(more, std::memory_order_relaxed);
  return {best, more};
}

void Batcher::TakeOut(TaskBatch& batch) {
  batch.closed = true;
  unsent_.erase(std::find(unsent_.begin(), unsent_.end(), &batch));
  ++in_engine_;
  if (batch.live == 0) return;  // it only ends
  turns_.Sent(batch.model);
  for (TaskBatch* other : unsent_) {
    if (other->ready() && other->priority > batch.priority) ++other->passed;
  }
}

bool Batcher::GoesBefore(const TaskBatch& a, const TaskBatch& b) const {
  if ((a.live == 0) != (b.live == 0)) return a.live == 0;
  const uint32_t a_passed = a.passed < kMostPassed ? 0 : a.passed;
  const uint32_t b_passed = b.passed < kMostPassed ? 0 : b.passed;
  if (a_passed != b_passed) return a_passed > b_passed;
  if (a.priority != b.priority) return a.priority < b.priority;
  const uint64_t a_sent = turns_.Of(a.model).sent;
  const uint64_t b_sent = turns_.Of(b.model).sent;
  if (a_sent != b_sent) return a_sent < b_sent;
  return a.due < b.due;
}

bool Batcher::GoesBefore(const TaskLine& a, const TaskLine& b) const {
  const uint32_t a_passed = a.passed < kMostPassed ? 0 : a.passed;
  const uint32_t b_passed = b.passed < kMostPassed ? 0 : b.passed;
  if (a_passed != b_passed) return a_passed > b_passed;
  if (a.priority != b.priority) return a.priority < b.priority;
  const uint64_t a_opened = turns_.Of(a.model).opened;
  const uint64_t b_opened = turns_.Of(b.model).opened;
  if (a_opened != b_opened) return a_opened < b_opened;
  return TaskLines::Arrival(a) < TaskLines::Arrival(b);
}

// The last slab is for those whom others must not hold up: high priorities, and models that have no batch.
bool Batcher::MayTakeSlab(const LoadedModel* model, Priority priority) const {
  if (slabs_in_use_ >= slabs_) return false;
  if (slabs_in_use_ + 1 < slabs_ || slabs_ < kLeastSlabsToKeepOne) return true;
  return priority == Priority::kHigh || turns_.Of(model).batches == 0;
}

void Batcher::ServeLines(std::vector<ScoreTask*>& served) {
  if (lines_.empty() || slabs_in_use_ >= slabs_) return;
  if (const TimePoint now = clock_.Now(); lines_.NextDeadline() <= now) {
    lines_.RemoveExpired(now, served);
    for (ScoreTask* task : served) task->FailForDeadline();
  }
  while (ServeLine(served)) {
  }
}

// Gives a slab to the line that goes next, and to all in it and others of its model and kind who fit in as well. Room
// is claimed here, not when they go on: so nobody is passed by, and no slab is left lying by one who does not want it
// any more.
bool Batcher::ServeLine(std::vector<ScoreTask*>& served) {
  TaskLine* next = nullptr;
  for (TaskLine& line : lines_.lines()) {
    if (line.passed < kMostPassed && !MayTakeSlab(line.model, line.priority)) continue;
    if (next == nullptr || GoesBefore(line, *next)) next = &line;
  }
  TaskBatch* const batch = next == nullptr ? nullptr : Open(*next->front);
  if (batch == nullptr) return false;
  for (TaskLine& line : lines_.lines()) {
    if (line.priority > next->priority) ++line.passed;
  }
  batch->passed = std::exchange(next->passed, 0);  // who was passed by in line has waited for the device as well
  FillFrom(*next, *batch, served);
  for (const Priority priority : {Priority::kHigh, Priority::kNormal, Priority::kLow}) {
    if (TaskLine* line = lines_.Find(next->model, next->kind, priority)) FillFrom(*line, *batch, served);
  }
  lines_.EraseEmpty();
  return true;
}

void Batcher::FillFrom(TaskLine& line, TaskBatch& batch, std::vector<ScoreTask*>& served) {
  while (line.front != nullptr && !batch.closed) {
    if (line.front->context_lines() > batch.slab->RoomForLines()) {
      batch.closed = true;
      return;
    }
    ScoreTask& task = lines_.Pop(line);
    task.place_ = PlaceIn(batch, task);
    served.push_back(&task);
  }
}

}  // namespace widelane
