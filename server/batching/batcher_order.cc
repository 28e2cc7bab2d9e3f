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

// When nothing is under way nobody would come for the batch later, so it goes whatever the engine says. One at a time
// is handed to devices: until the engine has it, it would let another have the same lane.
Start Batcher::HowItStarts(const TaskBatch& batch, Where where, CloseReason& why) const {
  why = CloseReason::kIdle;
  if (batch.live == 0) return Start::kOnCaller;  // it only ends
  const Slab& slab = *batch.slab;
  const Start start =
      engine_.HowItStarts(*slab.model(), slab.kind(), slab.rows(), slab.entries(), where, batch.Callers());
  if (start == Start::kOnDevice && submitting_ > 0) return Start::kLater;
  if (start != Start::kLater || in_engine_ > 0) return start;
  why = CloseReason::kLast;
  return Start::kOnDevice;
}

// Asks for a device under the lock: one that becomes free later finds the batch.
Batcher::Next Batcher::LetGo(TaskBatch& batch, Where where) {
  --batch.writers;
  CloseReason why;
  if (batch.ready() && HowItStarts(batch, where, why) != Start::kLater) return Pick(where);
  WatchFor(batch.deadline);
  if (batch.ready()) {
    waits_.store(true, std::memory_order_relaxed);
  } else if (!batch.closed && HowItStarts(batch, where, why) != Start::kLater) {
    // Nobody else may join once a device waits for it; else a stream of writers could keep the batch open for ever.
    batch.Close(why);
  }
  return {};
}

Batcher::Next Batcher::Pick(Where where) {
  Next next;
  CloseReason why_next = CloseReason::kIdle;
  for (TaskBatch* batch : unsent_) {
    if (!batch->ready() || (next.batch != nullptr && !GoesBefore(*batch, *next.batch))) continue;
    CloseReason why;
    const Start start = HowItStarts(*batch, where, why);
    if (start == Start::kLater) continue;
    why_next = why;
    next.batch = batch;
    next.to_device = start == Start::kOnDevice;
  }
  if (next.to_device) ++submitting_;
  if (next.batch != nullptr) TakeOut(*next.batch, why_next);
  for (const TaskBatch* batch : unsent_) {
    if (!batch->ready()) continue;
    next.more = true;
    WatchFor(batch->deadline);
  }
  waits_.store(next.more, std::memory_order_relaxed);
  return next;
}

void Batcher::TakeOut(TaskBatch& batch, CloseReason why) {
  batch.Close(why);
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
      batch.Close(CloseReason::kRoom);
      return;
    }
    ScoreTask& task = lines_.Pop(line);
    task.place_ = PlaceIn(batch, task);
    served.push_back(&task);
  }
}

}  // namespace widelane
