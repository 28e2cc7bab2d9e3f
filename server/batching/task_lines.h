// Tasks that wait for a slab: a line for each model, kind and priority. The links are in the tasks, so that any of them
// leaves at once.
//
// All under the batcher's lock.

#ifndef WIDELANE_SERVER_BATCHING_TASK_LINES_H_
#define WIDELANE_SERVER_BATCHING_TASK_LINES_H_

#include <cstdint>
#include <vector>

#include "server/batching/clock.h"
#include "server/batching/score_task.h"

namespace widelane {

struct TaskLine {
  const LoadedModel* model = nullptr;
  BatchKind kind;
  Priority priority = Priority::kNormal;
  ScoreTask* front = nullptr;
  ScoreTask* back = nullptr;
  Waiting waiting;                                      // those in line, with the rows that are left of them
  uint32_t passed = 0;                                  // how often a slab went to a higher priority since the last
  Clock::TimePoint deadline = Clock::TimePoint::max();  // no task's is before this
};

class TaskLines {
 public:
  bool empty() const { return lines_.empty(); }
  // None is empty, but between Pop and EraseEmpty. Valid until the next call that adds or erases.
  std::vector<TaskLine>& lines() { return lines_; }
  const std::vector<TaskLine>& lines() const { return lines_; }
  // Null when there is none.
  TaskLine* Find(const LoadedModel* model, const BatchKind& kind, Priority priority);
  bool Has(const LoadedModel* model) const;

  // At the end, or where it was before if it could not use what it was given.
  void Add(ScoreTask& task);
  // False when it is not in line.
  bool Remove(ScoreTask& task);
  // Takes out the first of a line that is not empty.
  ScoreTask& Pop(TaskLine& line);
  void EraseEmpty();
  // When the first of the line came: a number that only grows.
  static uint64_t Arrival(const TaskLine& line) { return line.front->ticket_; }
  // The earliest of all deadlines, or before it.
  Clock::TimePoint NextDeadline() const;
  // Takes out those whose deadline is over.
  void RemoveExpired(Clock::TimePoint now, std::vector<ScoreTask*>& expired);

 private:
  static void RemoveExpired(TaskLine& line, Clock::TimePoint now, std::vector<ScoreTask*>& expired);
  static void Unlink(TaskLine& line, ScoreTask& task);

  std::vector<TaskLine> lines_;
  uint64_t last_ticket_ = 0;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_BATCHING_TASK_LINES_H_
