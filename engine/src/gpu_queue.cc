#include "gpu_queue.h"

#include <algorithm>

#include "spin.h"

namespace widelane {

absl::StatusOr<std::unique_ptr<GpuQueue>> GpuQueue::Create(const Place& place, Device& device, Device& cpu,
                                                           size_t capacity, std::chrono::microseconds spin,
                                                           PieceDone done) {
  std::unique_ptr<GpuQueue> queue(new GpuQueue(place, device, capacity, spin, done));
  // On the thread that is to use them.
  queue->starter_ = std::thread([queue = queue.get(), &cpu] {
    queue->MakeLanes(cpu);
    queue->StartPieces();
  });
  {
    std::unique_lock<std::mutex> lock(queue->mutex_);
    queue->started_.wait(lock, [&queue] { return queue->lanes_made_; });
    if (!queue->lane_status_.ok()) return queue->lane_status_;
  }
  queue->finisher_ = std::thread([queue = queue.get()] { queue->FinishPieces(); });
  return queue;
}

GpuQueue::GpuQueue(const Place& place, Device& device, size_t capacity, std::chrono::microseconds spin, PieceDone done)
    : place_(place), device_(device), spin_(spin), done_(done), waiting_(capacity), running_(device.lanes()) {}

GpuQueue::~GpuQueue() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  startable_.notify_all();
  started_.notify_all();
  if (starter_.joinable()) starter_.join();
  if (finisher_.joinable()) finisher_.join();
}

void GpuQueue::MakeLanes(Device& cpu) {
  absl::Status status = device_.BindThread();
  std::vector<std::unique_ptr<Lane>> lanes;
  for (size_t i = 0; status.ok() && i < device_.lanes(); ++i) {
    absl::StatusOr<std::unique_ptr<Lane>> lane = device_.MakeLane();
    status = lane.status();
    if (lane.ok()) lanes.push_back(*std::move(lane));
  }
  absl::StatusOr<std::unique_ptr<Lane>> fallback = cpu.MakeLane();
  status.Update(fallback.status());
  const std::lock_guard<std::mutex> lock(mutex_);
  lanes_ = std::move(lanes);
  records_.resize(lanes_.size());
  for (const std::unique_ptr<Lane>& lane : lanes_) free_lanes_.push_back(lane.get());
  if (fallback.ok()) fallback_ = *std::move(fallback);
  lane_status_ = status;
  stopping_ = stopping_ || !status.ok();
  lanes_made_ = true;
  started_.notify_all();
}

void GpuQueue::Push(const Piece& pushed, bool start_here) {
  Piece piece = pushed;
  if (piece.task->slab->observer != nullptr) piece.submitted = std::chrono::steady_clock::now();
  Count(piece, 1);
  Lane* lane = nullptr;
  {
    // Noticed under the lock: once it is free the piece may be done, and the engine with it.
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!start_here || !waiting_.empty() || free_lanes_.empty()) {
      waiting_.Push(piece);
      waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
      startable_.notify_one();
      return;
    }
    lane = free_lanes_.back();
    free_lanes_.pop_back();
  }
  StartOn(*lane, piece);
}

// Trials do not count: nobody is told when they end, so nobody may wait for it.
void GpuQueue::Count(const Piece& piece, int pieces) {
  if (piece.trial) return;
  backlog_ns_.fetch_add(pieces * static_cast<int64_t>(piece.predicted_ns), std::memory_order_relaxed);
  load_.fetch_add(static_cast<size_t>(pieces), std::memory_order_acq_rel);
}

void GpuQueue::StartOn(Lane& lane, const Piece& piece) {
  LaneWork work = WorkOf(piece, place_.resident);
  work.record = RecordFor(lane, piece);
  Started started{piece, &lane, std::chrono::steady_clock::now(), absl::OkStatus(), work.record};
  for (DeviceMeter& meter : place_.meters) meter.busy.Begin(BusyMeter::Who::kQueue, started.begun);
  started.status = failed() ? absl::UnavailableError("the device has failed before") : lane.Start(work);
  if (work.record != nullptr) work.record->launched = std::chrono::steady_clock::now();
  const std::lock_guard<std::mutex> lock(mutex_);
  running_.Push(std::move(started));
  running_count_.store(running_.size(), std::memory_order_relaxed);
  started_.notify_one();
}

PieceRecord* GpuQueue::RecordFor(const Lane& lane, const Piece& piece) {
  const Slab& slab = *piece.task->slab;
  if (slab.observer == nullptr) return nullptr;
  size_t number = 0;
  while (lanes_[number].get() != &lane) ++number;
  PieceRecord& record = records_[number];
  StartRecord(WorkOf(piece, place_.resident), slab, record);
  record.device = place_.device;
  record.lane = static_cast<int>(place_.first_lane + number);
  record.submitted = piece.submitted;
  record.begun = std::chrono::steady_clock::now();
  return &record;
}

void GpuQueue::Spin(const std::atomic<size_t>& count) const {
  SpinUntil(spin_, [&count] { return count.load(std::memory_order_relaxed) > 0; });
}

void GpuQueue::StartPieces() {
  for (;;) {
    Spin(waiting_count_);
    Piece piece;
    Lane* lane = nullptr;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      startable_.wait(lock, [this] {
        const bool ready = !waiting_.empty() && !free_lanes_.empty();
        return ready || (stopping_ && waiting_.empty());
      });
      if (waiting_.empty()) {
        starter_gone_ = true;
        started_.notify_all();
        return;
      }
      piece = waiting_.Pop();
      waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
      lane = free_lanes_.back();
      free_lanes_.pop_back();
    }
    StartOn(*lane, piece);
  }
}

void GpuQueue::FinishPieces() {
  // Near the results. That it can be done the other thread has seen.
  static_cast<void>(device_.BindThread());
  for (;;) {
    Spin(running_count_);
    Started started;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      started_.wait(lock, [this] { return !running_.empty() || starter_gone_; });
      if (running_.empty()) return;
      started = running_.Pop();
      running_count_.store(running_.size(), std::memory_order_relaxed);
    }
    Finish(started);
  }
}

void GpuQueue::Finish(Started& started) {
  const Piece& piece = started.piece;
  PieceResult result;
  result.device = place_.device;
  result.begun = started.begun;
  result.status = started.status.ok() ? started.lane->Finish(result.stages) : started.status;
  result.ended = std::chrono::steady_clock::now();
  CountEnd(result.ended);
  if (result.status.ok()) CountBytes(started);
  // Before the lane, and its record, are another piece's.
  if (started.record != nullptr && result.status.ok()) {
    started.record->done = result.ended;
    piece.task->slab->observer->OnPiece(*started.record);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_lanes_.push_back(started.lane);
    startable_.notify_one();
  }
  if (!result.status.ok() && !piece.trial) {
    failures_.fetch_add(1, std::memory_order_relaxed);
    failed_.store(true, std::memory_order_relaxed);
    result.device = 0;
    BusyMeter& cpu = place_.cpu_meter->busy;
    cpu.Begin(BusyMeter::Who::kQueue, result.ended);
    result.status = ScoreAndTell(*fallback_, WorkOf(piece, 0), *piece.task->slab, result.stages, piece.submitted);
    result.ended = std::chrono::steady_clock::now();
    cpu.End(BusyMeter::Who::kQueue, result.ended);
  }
  NotePiece(piece, result);
  Count(piece, -1);
  done_(piece);
}

void GpuQueue::CountEnd(TimePoint ended) {
  for (DeviceMeter& meter : place_.meters) meter.busy.End(BusyMeter::Who::kQueue, ended);
}

// While the lane is not free yet.
void GpuQueue::CountBytes(const Started& started) {
  if (started.piece.trial) return;
  for (size_t gpu = 0; gpu < place_.meters.size(); ++gpu) {
    const CopiedBytes copied = started.lane->copied(gpu);
    place_.meters[gpu].bytes_in.fetch_add(copied.in, std::memory_order_relaxed);
    place_.meters[gpu].bytes_out.fetch_add(copied.out, std::memory_order_relaxed);
  }
}

}  // namespace widelane
