#include "dispatch.h"

#include <algorithm>
#include <cstdlib>

namespace widelane {

absl::Status ScorePiece(Lane& lane, size_t device, const Piece& piece) {
  Slab& slab = *piece.task->slab;
  StageTimes stages;
  absl::Status status = lane.Score(slab.model()->model(), slab.model()->resident(device), slab.view(), piece.first_row,
                                   piece.rows, stages);
  if (!status.ok()) return status;
  const std::lock_guard<std::mutex> lock(piece.task->mutex);
  for (size_t s = 0; s < kStages; ++s) slab.stages.time[s] = std::max(slab.stages.time[s], stages.time[s]);
  slab.device = static_cast<int>(device);
  return absl::OkStatus();
}

LaneGroup::LaneGroup(std::vector<Member> members, Device* fallback, size_t queue_size, TaskDone done, void* context)
    : fallback_(fallback), done_(done), context_(context), ring_(queue_size) {
  size_t lanes = 0;
  for (const Member& member : members) {
    states_.push_back(std::make_unique<DeviceState>());
    states_.back()->member = member;
    lanes += member.device->lanes();
  }
  healthy_ = states_.size();
  threads_.reserve(lanes);
  for (const std::unique_ptr<DeviceState>& state : states_) {
    for (size_t i = 0; i < state->member.device->lanes(); ++i) {
      threads_.emplace_back([this, &state = *state] { Work(state); });
    }
  }
}

LaneGroup::~LaneGroup() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool LaneGroup::Failed(size_t index) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(states_.begin(), states_.end(),
                     [index](const auto& state) { return state->member.index == index && state->failed; });
}

absl::Status LaneGroup::WaitForLanes() {
  std::unique_lock<std::mutex> lock(mutex_);
  made_.wait(lock, [this] { return lanes_made_ == threads_.size(); });
  return lane_status_;
}

void LaneGroup::Push(const Piece& piece) {
  load_.fetch_add(1, std::memory_order_acq_rel);
  // Noticed under the lock: once it is free the piece may be done, and the engine with it.
  const std::lock_guard<std::mutex> lock(mutex_);
  if (queued_ == ring_.size()) std::abort();  // more pieces than slabs can make
  ring_[(head_ + queued_) % ring_.size()] = piece;
  ++queued_;
  // A single notice could go to a lane that may not take the piece.
  if (healthy_ != states_.size()) {
    work_.notify_all();
  } else {
    work_.notify_one();
  }
}

void LaneGroup::Work(DeviceState& state) {
  absl::StatusOr<std::unique_ptr<Lane>> lane = state.member.device->MakeLane();
  std::unique_ptr<Lane> fallback;
  absl::Status status = lane.status();
  if (status.ok() && fallback_ != nullptr) {
    absl::StatusOr<std::unique_ptr<Lane>> made = fallback_->MakeLane();
    status = made.status();
    if (made.ok()) fallback = *std::move(made);
  }
  std::unique_lock<std::mutex> lock(mutex_);
  if (lane_status_.ok()) lane_status_ = status;
  ++lanes_made_;
  made_.notify_all();
  if (!status.ok()) return;
  for (;;) {
    work_.wait(lock, [&] { return stopping_ || MayTake(state); });
    if (!MayTake(state)) return;
    const Piece piece = ring_[head_];
    head_ = (head_ + 1) % ring_.size();
    --queued_;
    const bool failed = state.failed;
    lock.unlock();
    Run(**lane, fallback.get(), state, piece, failed);
    lock.lock();
  }
}

void LaneGroup::MarkFailed(DeviceState& state) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (state.failed) return;
    state.failed = true;
    --healthy_;
  }
  work_.notify_all();
}

void LaneGroup::Run(Lane& lane, Lane* fallback, DeviceState& state, const Piece& piece, bool failed) {
  BatchTask& task = *piece.task;
  absl::Status status;
  if (!failed) status = ScorePiece(lane, state.member.index, piece);
  if (failed || !status.ok()) {
    failures_.fetch_add(1, std::memory_order_relaxed);
    if (fallback != nullptr) {
      MarkFailed(state);
      status = ScorePiece(*fallback, 0, piece);
    }
  }
  if (!status.ok()) {
    const std::lock_guard<std::mutex> lock(task.mutex);
    task.slab->status = status;
  }
  load_.fetch_sub(1, std::memory_order_acq_rel);
  // The piece that counts to zero sees what all others wrote.
  if (task.pieces_left.fetch_sub(1, std::memory_order_acq_rel) == 1) done_(context_, task);
}

}  // namespace widelane
