// A slab and whose rows are in it.
//
// Under the batcher's lock, but `pack` and what is in a part's segment of the slab, which are its writer's; all of it
// is the sender's once the batch has been taken out to be sent.

#ifndef WIDELANE_SERVER_BATCHING_TASK_BATCH_H_
#define WIDELANE_SERVER_BATCHING_TASK_BATCH_H_

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/batching/clock.h"
#include "server/batching/score_task.h"
#include "widelane/engine/engine.h"

namespace widelane {

class Batcher;

// Why a batch took no more rows.
enum class CloseReason : uint8_t {
  kIdle,      // a device, or the thread that had it, could start it
  kRows,      // as many as are sent together
  kEntries,   // the same
  kRoom,      // its slab was full: of rows, entries, results or lines of context sums
  kDelay,     // it had waited long enough
  kDeadline,  // one of its requests' was near
  kAlone,     // one request, scored on the thread that received it
  kLast,      // nothing was under way whose end it could wait for
};
inline constexpr size_t kCloseReasons = 8;
inline constexpr std::array<const char*, kCloseReasons> kCloseReasonNames = {"idle",  "rows",     "entries", "room",
                                                                             "delay", "deadline", "alone",   "last"};

class TaskBatch : public BatchListener {
 public:
  struct Part {
    ScoreTask* task = nullptr;  // null: nobody waits for it any more
    Segment segment;
    uint64_t first_row = 0;  // of the request
    std::chrono::nanoseconds pack{0};
    Clock::TimePoint pack_end{};
    uint32_t packer = 0;  // thread, of tasks in a timeline
    bool packed = false;
  };

  // No other batch of the owner has the same slot.
  TaskBatch(Batcher& owner, size_t own_slot) : slot(own_slot), owner_(owner) {}
  void OnBatchDone(SlabHandle done) override;

  void Open(SlabHandle empty);
  // Notes that rows of `task` are in it, which may not wait for others beyond `due`, for this reason.
  void Add(ScoreTask& task, const Segment& segment, Clock::TimePoint due, CloseReason why);
  // The task's part, if it has one.
  Part* FindPart(const ScoreTask& task);
  // Requests at work beside those in it, which share what is done for it, and one for all of these.
  uint64_t Callers() const { return callers - std::min<uint64_t>(callers, live) + 1; }
  // Nobody waits for this part any more.
  void Drop(Part& part);
  // Nobody else may join. What it was closed for first is what counts.
  void Close(CloseReason why);
  // Whether it may be sent: no thread writes into it.
  bool ready() const { return writers == 0; }

  const size_t slot;
  SlabHandle slab;
  const LoadedModel* model = nullptr;
  std::vector<Part> parts;
  size_t live = 0;     // parts somebody waits for
  size_t writers = 0;  // threads that are packing or voiding
  bool closed = false;
  CloseReason close_reason = CloseReason::kIdle;
  Waiting waiting;                                 // of the live parts; a request counts where its last row is
  Priority priority = Priority::kLow;              // the highest of its tasks
  uint64_t callers = 1;                            // the most that its tasks know of, themselves included
  Clock::TimePoint due = Clock::TimePoint::max();  // takes no more from then on
  CloseReason due_reason = CloseReason::kDelay;
  Clock::TimePoint deadline = Clock::TimePoint::max();  // no live part's is before this
  uint32_t passed = 0;  // how often one of a higher priority was sent while this could have been
  Clock::TimePoint sealed;
  // Its number in a timeline, 0: none, and what is told of it there.
  uint64_t traced = 0;
  Clock::TimePoint opened;
  absl::string_view model_name;

 private:
  static Waiting WaitingOf(const Part& part);

  Batcher& owner_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_BATCHING_TASK_BATCH_H_
