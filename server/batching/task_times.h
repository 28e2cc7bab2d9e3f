// Where a request's time went, over all the batches that had rows of it.

#ifndef WIDELANE_SERVER_BATCHING_TASK_TIMES_H_
#define WIDELANE_SERVER_BATCHING_TASK_TIMES_H_

#include <chrono>
#include <cstdint>

#include "widelane/engine/slab.h"
#include "widelane/engine/stages.h"

namespace widelane {

struct TaskTimes {
  using TimePoint = std::chrono::steady_clock::time_point;

  // One more batch, which is done and had rows of the request. `shares`: BatchShares(slab).
  void Add(const Slab& slab, const StageTimes& shares);

  std::chrono::nanoseconds pack{0};
  StageTimes work;  // on devices, a sum: launch to transfer_out
  // When the first device began, and when the last had its results on the host.
  TimePoint begun;
  TimePoint ended;
  int device = -1;  // of the last batch, index into Engine::devices()
  uint32_t batches = 0;
  uint64_t batch_rows = 0;  // of the last batch
};

// The time from when a device began with the batch until its results were there, as one who waits for them sees it:
// what two stages share counts for the earlier one, and what none of them measured (waking, waiting in the driver) is
// launch's.
StageTimes BatchShares(const Slab& slab);

// All stages of a request that was `received` and whose reply is `handed` to gRPC; they add up to the time between.
// Work of batches that ran side by side, or while further rows were packed, is scaled to the time that was left.
StageTimes RequestStages(const TaskTimes& times, TaskTimes::TimePoint received, TaskTimes::TimePoint handed);

}  // namespace widelane

#endif  // WIDELANE_SERVER_BATCHING_TASK_TIMES_H_
