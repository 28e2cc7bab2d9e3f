#include "server/batching/score_task.h"

#include <algorithm>

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

void ScoreTask::AddTimes(const Slab& slab, std::chrono::nanoseconds queue, std::chrono::nanoseconds pack,
                         std::chrono::steady_clock::time_point results_ready) {
  const std::lock_guard lock(mutex_);
  for (size_t stage = 0; stage < kStages; ++stage) times_.stages.time[stage] += slab.stages.time[stage];
  times_.stages[Stage::kPack] += pack;
  times_.stages[Stage::kQueue] = std::max(times_.stages[Stage::kQueue], queue);
  times_.device = slab.device;
  times_.batch_rows = slab.rows();
  ++times_.batches;
  times_.results_ready = results_ready;
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
