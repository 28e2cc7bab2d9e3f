#include "cpu_queue.h"

#include <chrono>

namespace widelane {

absl::StatusOr<std::unique_ptr<CpuQueue>> CpuQueue::Create(Device& cpu, BusyMeter& meter, size_t capacity,
                                                           PieceDone done) {
  std::unique_ptr<CpuQueue> queue(new CpuQueue(meter, capacity, done));
  for (size_t i = 0; i < cpu.lanes(); ++i) {
    absl::StatusOr<std::unique_ptr<Lane>> lane = cpu.MakeLane();
    if (!lane.ok()) return lane.status();
    queue->lanes_.push_back(*std::move(lane));
  }
  for (const std::unique_ptr<Lane>& lane : queue->lanes_) {
    queue->threads_.emplace_back([queue = queue.get(), lane = lane.get()] { queue->Work(*lane); });
  }
  return queue;
}

CpuQueue::~CpuQueue() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void CpuQueue::Push(const Piece& piece) {
  load_.fetch_add(1, std::memory_order_acq_rel);
  Piece queued = piece;
  if (piece.task->slab->observer != nullptr) queued.submitted = std::chrono::steady_clock::now();
  // Noticed under the lock: once it is free the piece may be done, and the engine with it.
  const std::lock_guard<std::mutex> lock(mutex_);
  waiting_.Push(queued);
  work_.notify_one();
}

void CpuQueue::Work(Lane& lane) {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Piece piece = waiting_.Pop();
    lock.unlock();
    PieceResult result;
    result.begun = std::chrono::steady_clock::now();
    meter_.Begin(BusyMeter::Who::kQueue, result.begun);
    result.status = ScoreAndTell(lane, WorkOf(piece, 0), *piece.task->slab, result.stages, piece.submitted);
    result.ended = std::chrono::steady_clock::now();
    meter_.End(BusyMeter::Who::kQueue, result.ended);
    NotePiece(piece, result);
    load_.fetch_sub(1, std::memory_order_acq_rel);
    done_(piece);
    lock.lock();
  }
}

}  // namespace widelane
