#include "server/batching/task_times.h"

#include <algorithm>

namespace widelane {

namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kNone{0};

nanoseconds Between(TaskTimes::TimePoint from, TaskTimes::TimePoint to) {
  return std::max(kNone, nanoseconds(to - from));
}

nanoseconds Sum(const StageTimes& stages) {
  nanoseconds sum{0};
  for (const nanoseconds time : stages.time) sum += time;
  return sum;
}

// Each stage gets what it took as far as there is time left; launch the rest.
StageTimes ShareOut(nanoseconds span, const StageTimes& took) {
  StageTimes shares;
  for (const Stage stage : {Stage::kTransferIn, Stage::kCompute, Stage::kTransferOut}) {
    shares[stage] = std::clamp(took[stage], kNone, span);
    span -= shares[stage];
  }
  shares[Stage::kLaunch] = span;
  return shares;
}

StageTimes Scaled(const StageTimes& work, nanoseconds to) {
  const double ratio = static_cast<double>(to.count()) / static_cast<double>(Sum(work).count());
  StageTimes scaled;
  for (size_t s = 0; s < kStages; ++s) {
    scaled.time[s] = nanoseconds(static_cast<int64_t>(static_cast<double>(work.time[s].count()) * ratio));
  }
  return ShareOut(to, scaled);
}

}  // namespace

void TaskTimes::Add(const Slab& slab, const StageTimes& shares) {
  for (size_t s = 0; s < kStages; ++s) work.time[s] += shares.time[s];
  begun = batches == 0 ? slab.begun : std::min(begun, slab.begun);
  ended = batches == 0 ? slab.ended : std::max(ended, slab.ended);
  device = slab.device;
  batch_rows = slab.rows();
  ++batches;
}

StageTimes BatchShares(const Slab& slab) { return ShareOut(Between(slab.begun, slab.ended), slab.stages); }

StageTimes RequestStages(const TaskTimes& times, TaskTimes::TimePoint received, TaskTimes::TimePoint handed) {
  const nanoseconds scored = Between(received, times.ended);
  const nanoseconds pack = std::min(times.pack, scored);
  const nanoseconds most = std::min(Between(times.begun, times.ended), scored - pack);
  StageTimes stages = Sum(times.work) > most ? Scaled(times.work, most) : times.work;
  stages[Stage::kQueue] = scored - pack - Sum(stages);
  stages[Stage::kPack] = pack;
  stages[Stage::kReply] = Between(times.ended, handed);
  return stages;
}

}  // namespace widelane
