#include "server/batching/score_task.h"

namespace widelane {

void ScoreTask::Start() {
  cursor_.emplace(work_.csr);
  entries_left_ = work_.shape.entries;
  place_ = {};
  last_ = {};
  claims_ = 0;
  ticket_ = 0;
  ignored_ = 0;
  failed_.store(false, std::memory_order_relaxed);
  status_ = absl::OkStatus();
  times_ = {};
  holds_.store(1, std::memory_order_release);  // last: from now on others may withdraw it
}

void ScoreTask::Fail(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (status_.ok()) status_ = status;
  failed_.store(true, std::memory_order_release);
}

void ScoreTask::FailForDeadline() { Fail(absl::DeadlineExceededError("the deadline passed while the request waited")); }

void ScoreTask::AddTimes(const Slab& slab, const StageTimes& shares, std::chrono::nanoseconds pack) {
  const std::lock_guard lock(mutex_);
  times_.Add(slab, shares);
  times_.pack += pack;
}

bool ScoreTask::TryHold() {
  uint32_t holds = holds_.load(std::memory_order_relaxed);
  while (holds != 0) {
    if (holds_.compare_exchange_weak(holds, holds + 1, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void ScoreTask::Release() {
  if (holds_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const absl::Status status = std::move(status_);  // nobody else holds the task any more
  OnDone(status);
}

}  // namespace widelane
