#include "server/batching/task_batch.h"

#include <algorithm>

#include "server/batching/batcher.h"

namespace widelane {

void TaskBatch::OnBatchDone(SlabHandle done) { owner_.OnBatchDone(*this, std::move(done)); }

void TaskBatch::Open(SlabHandle empty) {
  slab = std::move(empty);
  model = slab->model().get();
  parts.clear();
  live = 0;
  writers = 0;
  closed = false;
  waiting = {};
  priority = Priority::kLow;
  callers = 1;
  due = Clock::TimePoint::max();
  deadline = Clock::TimePoint::max();
  passed = 0;
}

void TaskBatch::Close(CloseReason why) {
  if (closed) return;
  closed = true;
  close_reason = why;
}

Waiting TaskBatch::WaitingOf(const Part& part) {
  const ScoreTask::Work& work = part.task->work_;
  const bool is_last = part.first_row + part.segment.rows == work.shape.rows;
  return {is_last ? uint64_t{1} : 0, part.segment.rows, is_last ? work.bytes : 0};
}

void TaskBatch::Add(ScoreTask& task, const Segment& segment, Clock::TimePoint due_for_task, CloseReason why) {
  parts.push_back({&task, segment, task.cursor_->row()});
  ++live;
  waiting += WaitingOf(parts.back());
  priority = std::min(priority, task.work_.priority);
  callers = std::max(callers, task.work_.callers);
  if (due_for_task < due) {
    due = due_for_task;
    due_reason = why;
  }
  deadline = std::min(deadline, task.work_.deadline);
}

// A task has one part of a batch at most: it claims all that fits.
TaskBatch::Part* TaskBatch::FindPart(const ScoreTask& task) {
  const ScoreTask::Place& last = task.last_;
  if (last.batch == this && last.part < parts.size() && parts[last.part].task == &task) return &parts[last.part];
  if (task.claims_ < 2) return nullptr;
  const auto part = std::find_if(parts.begin(), parts.end(), [&task](const Part& p) { return p.task == &task; });
  return part == parts.end() ? nullptr : &*part;
}

void TaskBatch::Drop(Part& part) {
  waiting -= WaitingOf(part);
  part.task = nullptr;
  --live;
}

}  // namespace widelane
