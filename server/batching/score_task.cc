#include "server/batching/score_task.h"

namespace widelane {

void ScoreTask::Start() {
  cursor_.emplace(work_.csr);
  entries_left_ = work_.shape.entries;
  place_ = {};
  ticket_ = 0;
  ignored_ = 0;
  holds_.store(1, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_relaxed);
  status_ = absl::OkStatus();
  times_ = {};
}

void ScoreTask::Fail(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (status_.ok()) status_ = status;
  failed_.store(true, std::memory_order_release);
}

void ScoreTask::Release() {
  if (holds_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const absl::Status status = std::move(status_);  // nobody else holds the task any more
  OnDone(status);
}

}  // namespace widelane
