#include "thread_pool.h"

#include <algorithm>

#include "spin.h"

namespace widelane {

ThreadPool::ThreadPool(size_t helpers, std::chrono::microseconds spin) : spin_(spin) {
  threads_.reserve(helpers);
  for (size_t i = 0; i < helpers; ++i) threads_.emplace_back([this, i] { Help(i + 1); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  published_.fetch_add(1);
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::ForEachChunk(size_t chunks, Body body) {
  Slot* slot = chunks > 1 && !threads_.empty() ? UseFreeSlot() : nullptr;
  if (slot == nullptr) {
    for (size_t chunk = 0; chunk < chunks; ++chunk) body(0, chunk);
    return;
  }
  slot->body = &body;
  slot->running.store(static_cast<uint32_t>(chunks), std::memory_order_relaxed);
  slot->left.store(static_cast<uint32_t>(chunks));  // in one order with Sleep's count, so that one of both is seen
  published_.fetch_add(1);
  RunChunks(*slot, 0);
  WaitUntilDone(*slot);
  slot->used.store(false, std::memory_order_release);
}

ThreadPool::Slot* ThreadPool::UseFreeSlot() {
  for (Slot& slot : slots_) {
    if (!slot.used.load(std::memory_order_relaxed) && !slot.used.exchange(true, std::memory_order_acquire)) {
      return &slot;
    }
  }
  return nullptr;
}

bool ThreadPool::RunChunks(Slot& slot, size_t worker) {
  uint32_t left = slot.left.load(std::memory_order_relaxed);
  if (left == 0) return false;
  bool any = false;
  while (left > 0) {
    // If another job has taken the slot meanwhile, this takes a chunk of that one, which is as good.
    if (!slot.left.compare_exchange_weak(left, left - 1)) continue;
    if (!any) {
      any = true;
      busy_.fetch_add(1, std::memory_order_relaxed);
    }
    WakeSome(left - 1);
    (*slot.body)(worker, left - 1);
    // After the last one the caller may return and another job come: only the slot itself is touched.
    if (slot.running.fetch_sub(1, std::memory_order_acq_rel) == 1) slot.running.notify_all();
    left = slot.left.load(std::memory_order_relaxed);
  }
  if (any) busy_.fetch_sub(1, std::memory_order_relaxed);
  return any;
}

bool ThreadPool::RunAnything(size_t worker) {
  bool any = false;
  for (Slot& slot : slots_) any |= RunChunks(slot, worker);
  return any;
}

bool ThreadPool::AnythingLeft() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.left.load() > 0; });
}

void ThreadPool::WaitUntilDone(Slot& slot) const {
  const auto done = [&slot] { return slot.running.load(std::memory_order_acquire) == 0; };
  if (SpinUntil(spin_, done)) return;
  for (uint32_t running = slot.running.load(std::memory_order_acquire); running > 0;
       running = slot.running.load(std::memory_order_acquire)) {
    slot.running.wait(running, std::memory_order_acquire);
  }
}

// Helpers look at one number only, and at the slots when it has changed.
void ThreadPool::Help(size_t worker) {
  while (!stopping_.load(std::memory_order_relaxed)) {
    const uint32_t seen = published_.load();
    if (RunAnything(worker)) continue;
    const auto changed = [this, seen] { return published_.load(std::memory_order_relaxed) != seen; };
    if (!SpinUntil(spin_, changed)) Sleep();
  }
}

// A call into the kernel takes as long as a chunk of a small job, so such a job makes do with those who are awake, and
// wakes one more where there is nobody: helpers that find work stay awake, and so a stream of small jobs has as many
// as it feeds. A large job wants them all.
void ThreadPool::WakeSome(uint32_t chunks_left) {
  const uint32_t sleeping = sleeping_.load();
  if (chunks_left == 0 || sleeping == 0) return;
  const auto helpers = static_cast<uint32_t>(threads_.size());
  // Callers count as busy too, so this is never too many.
  const uint32_t unavailable = sleeping + busy_.load(std::memory_order_relaxed);
  const uint32_t free = helpers > unavailable ? helpers - unavailable : 0;
  const uint32_t wanted = chunks_left > 2 * helpers ? chunks_left : 1;
  if (wanted <= free) return;
  // A helper that has counted itself but not begun to wait holds the lock.
  { const std::lock_guard<std::mutex> lock(mutex_); }
  for (uint32_t wakes = std::min({wanted - free, sleeping, 2U}); wakes > 0; --wakes) work_.notify_one();
}

void ThreadPool::Sleep() {
  std::unique_lock<std::mutex> lock(mutex_);
  sleeping_.fetch_add(1);
  work_.wait(lock, [this] { return stopping_ || AnythingLeft(); });
  sleeping_.fetch_sub(1);
}

}  // namespace widelane
