// The slabs of an engine: made at start, lent one batch at a time.

#ifndef WIDELANE_ENGINE_SRC_SLAB_POOL_H_
#define WIDELANE_ENGINE_SRC_SLAB_POOL_H_

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "widelane/engine/engine.h"

namespace widelane {

class SlabPool {
 public:
  // Errors: RESOURCE_EXHAUSTED.
  absl::Status Fill(size_t slabs, const SlabOptions& options, HostMemory& memory) {
    for (size_t i = 0; i < slabs; ++i) {
      absl::StatusOr<std::unique_ptr<Slab>> slab = Slab::Create(options, memory);
      if (!slab.ok()) return slab.status();
      slabs_.push_back(*std::move(slab));
      free_.push_back(slabs_.back().get());
    }
    return absl::OkStatus();
  }

  size_t size() const { return slabs_.size(); }
  size_t in_use() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return slabs_.size() - free_.size();
  }

  SlabHandle Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) return {nullptr, ReturnSlab{this}};
    SlabHandle slab(free_.back(), ReturnSlab{this});
    free_.pop_back();
    return slab;
  }

  // Waits for a slab, `patience` at most; null then.
  SlabHandle WaitAndTake(std::chrono::milliseconds patience) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!returned_.wait_for(lock, patience, [this] { return !free_.empty(); })) return {nullptr, ReturnSlab{this}};
    SlabHandle slab(free_.back(), ReturnSlab{this});
    free_.pop_back();
    return slab;
  }

  void Return(Slab* slab) {
    slab->Close();
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(slab);  // within the capacity that Fill left
    returned_.notify_one();
  }

 private:
  std::vector<std::unique_ptr<Slab>> slabs_;
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<Slab*> free_;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_SLAB_POOL_H_
