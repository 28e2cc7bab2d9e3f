#include "server/batching/task_lines.h"

#include <algorithm>

namespace widelane {

TaskLine* TaskLines::Find(const LoadedModel* model, const BatchKind& kind, Priority priority) {
  const auto line = std::find_if(lines_.begin(), lines_.end(), [&](const TaskLine& candidate) {
    return candidate.model == model && candidate.kind == kind && candidate.priority == priority;
  });
  return line == lines_.end() ? nullptr : &*line;
}

bool TaskLines::Has(const LoadedModel* model) const {
  return std::any_of(lines_.begin(), lines_.end(), [model](const TaskLine& line) { return line.model == model; });
}

void TaskLines::Add(ScoreTask& task) {
  if (task.ticket_ == 0) task.ticket_ = ++last_ticket_;
  const ScoreTask::Work& work = task.work_;
  TaskLine* line = Find(work.model.get(), work.kind, work.priority);
  if (line == nullptr) {
    line = &lines_.emplace_back();
    line->model = work.model.get();
    line->kind = work.kind;
    line->priority = work.priority;
  }
  ScoreTask* before = line->back;
  while (before != nullptr && before->ticket_ > task.ticket_) before = before->before_;
  ScoreTask*& next = before == nullptr ? line->front : before->behind_;
  task.before_ = before;
  task.behind_ = next;
  (task.behind_ == nullptr ? line->back : task.behind_->before_) = &task;
  next = &task;
  task.in_line_ = true;
  line->waiting += task.waiting();
  line->deadline = std::min(line->deadline, work.deadline);
}

bool TaskLines::Remove(ScoreTask& task) {
  if (!task.in_line_) return false;
  Unlink(*Find(task.work_.model.get(), task.work_.kind, task.work_.priority), task);
  EraseEmpty();
  return true;
}

ScoreTask& TaskLines::Pop(TaskLine& line) {
  ScoreTask& task = *line.front;
  Unlink(line, task);
  return task;
}

void TaskLines::Unlink(TaskLine& line, ScoreTask& task) {
  (task.before_ == nullptr ? line.front : task.before_->behind_) = task.behind_;
  (task.behind_ == nullptr ? line.back : task.behind_->before_) = task.before_;
  task.before_ = nullptr;
  task.behind_ = nullptr;
  task.in_line_ = false;
  line.waiting -= task.waiting();
}

void TaskLines::EraseEmpty() {
  lines_.erase(std::remove_if(lines_.begin(), lines_.end(), [](const TaskLine& line) { return line.front == nullptr; }),
               lines_.end());
}

Clock::TimePoint TaskLines::NextDeadline() const {
  Clock::TimePoint next = Clock::TimePoint::max();
  for (const TaskLine& line : lines_) next = std::min(next, line.deadline);
  return next;
}

void TaskLines::RemoveExpired(Clock::TimePoint now, std::vector<ScoreTask*>& expired) {
  for (TaskLine& line : lines_) {
    if (line.deadline <= now) RemoveExpired(line, now, expired);
  }
  EraseEmpty();
}

void TaskLines::RemoveExpired(TaskLine& line, Clock::TimePoint now, std::vector<ScoreTask*>& expired) {
  line.deadline = Clock::TimePoint::max();
  for (ScoreTask* task = line.front; task != nullptr;) {
    ScoreTask* const behind = task->behind_;
    if (task->HasExpired(now)) {
      Unlink(line, *task);
      expired.push_back(task);
    } else {
      line.deadline = std::min(line.deadline, task->work_.deadline);
    }
    task = behind;
  }
}

}  // namespace widelane
