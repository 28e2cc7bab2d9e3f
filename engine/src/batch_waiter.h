// A listener for callers that wait.

#ifndef WIDELANE_ENGINE_SRC_BATCH_WAITER_H_
#define WIDELANE_ENGINE_SRC_BATCH_WAITER_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "spin.h"
#include "widelane/engine/engine.h"

namespace widelane {

// For one batch at a time. May go once Wait has returned.
class SpinningWaiter : public BatchListener {
 public:
  explicit SpinningWaiter(std::chrono::microseconds spin) : spin_(spin) {}

  void OnBatchDone(SlabHandle slab) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    slab_ = std::move(slab);
    done_.store(true, std::memory_order_release);
    changed_.notify_one();
  }

  // Looks for the end for `spin` before it sleeps.
  SlabHandle Wait() {
    SpinUntil(spin_, [this] { return done_.load(std::memory_order_acquire); });
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return done_.load(std::memory_order_relaxed); });
    done_.store(false, std::memory_order_relaxed);
    return std::move(slab_);
  }

 private:
  const std::chrono::microseconds spin_;
  std::mutex mutex_;
  std::condition_variable changed_;
  SlabHandle slab_{nullptr, ReturnSlab{nullptr}};
  std::atomic<bool> done_{false};
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_BATCH_WAITER_H_
