// Tasks that end before they have been scored: withdrawn, or out of time.

#include <algorithm>

#include "server/batching/batcher.h"

namespace widelane {

namespace {

// The watch looks through what waits no more often than this, whatever the deadlines.
constexpr std::chrono::milliseconds kLeastPause{1};

}  // namespace

void Batcher::Withdraw(ScoreTask& task, const absl::Status& status) {
  if (!task.TryHold()) return;
  task.Fail(status);
  std::vector<Gone> gone;
  {
    const std::lock_guard lock(mutex_);
    if (lines_.Remove(task)) gone.push_back({.task = &task, .batch = nullptr, .segment = {}, .alone = false});
    for (TaskBatch* batch : unsent_) {
      // A part that is being packed is its writer's, who drops it.
      TaskBatch::Part* const part = batch->FindPart(task);
      if (part != nullptr && part->packed) DropPart(*batch, *part, gone);
    }
  }
  EndGone(gone);
  task.Release();
}

// The batch cannot leave until the part's rows are voided: that counts as writing.
void Batcher::DropPart(TaskBatch& batch, TaskBatch::Part& part, std::vector<Gone>& gone) {
  ScoreTask* const task = part.task;
  batch.Drop(part);
  ++batch.writers;
  if (batch.live == 0) batch.Close(CloseReason::kIdle);
  gone.push_back({.task = task, .batch = &batch, .segment = part.segment, .alone = batch.live == 0});
}

void Batcher::EndGone(std::vector<Gone>& gone) {
  if (gone.empty()) return;
  for (const Gone& one : gone) {
    if (one.batch != nullptr && !one.alone) one.batch->slab->Void(one.segment);
  }
  Next next;
  {
    const std::lock_guard lock(mutex_);
    for (const Gone& one : gone) {
      if (one.batch != nullptr) --one.batch->writers;
    }
    next = Pick(Where::kEngineThreads);
  }
  SendAll(next, Where::kEngineThreads);
  for (const Gone& one : gone) one.task->Release();
  gone.clear();
}

void Batcher::Watch() {
  std::vector<Gone> gone;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const TimePoint now = clock_.Now();
    watch_until_ = NextExpiry();
    if (now < watch_until_) {
      clock_.Wait(lock, watch_changed_, watch_until_);
      continue;
    }
    TakeExpired(now, gone);
    lock.unlock();
    EndGone(gone);
    lock.lock();
  }
}

void Batcher::WatchFor(TimePoint deadline) {
  if (deadline >= watch_until_) return;
  watch_until_ = deadline;
  watch_changed_.notify_one();
}

Clock::TimePoint Batcher::NextExpiry() const {
  TimePoint next = lines_.NextDeadline();
  for (const TaskBatch* batch : unsent_) next = std::min(next, batch->deadline);
  return std::max(next, last_expiry_ + kLeastPause);
}

void Batcher::TakeExpired(TimePoint now, std::vector<Gone>& gone) {
  last_expiry_ = now;
  for (TaskBatch* batch : unsent_) {
    if (batch->deadline <= now) DropExpired(*batch, now, gone);
  }
  std::vector<ScoreTask*> expired;
  lines_.RemoveExpired(now, expired);
  for (ScoreTask* task : expired) {
    task->FailForDeadline();
    gone.push_back({.task = task, .batch = nullptr, .segment = {}, .alone = false});
  }
}

void Batcher::DropExpired(TaskBatch& batch, TimePoint now, std::vector<Gone>& gone) {
  batch.deadline = TimePoint::max();
  for (TaskBatch::Part& part : batch.parts) {
    if (part.task == nullptr) continue;
    if (!part.task->HasExpired(now)) {
      batch.deadline = std::min(batch.deadline, part.task->work_.deadline);
      continue;
    }
    part.task->FailForDeadline();
    if (part.packed) DropPart(batch, part, gone);
  }
}

}  // namespace widelane
