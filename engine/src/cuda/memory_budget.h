// How much of a GPU's memory models may take, counted over those that are loaded.

#ifndef WIDELANE_ENGINE_SRC_CUDA_MEMORY_BUDGET_H_
#define WIDELANE_ENGINE_SRC_CUDA_MEMORY_BUDGET_H_

#include <cstdint>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"

namespace widelane::cuda {

// Any thread. Held by the devices that use the GPU and by what is loaded.
class MemoryBudget : public std::enable_shared_from_this<MemoryBudget> {
 public:
  struct GiveBack {
    std::shared_ptr<MemoryBudget> owner;
    uint64_t bytes = 0;
    void operator()(MemoryBudget* budget) const { budget->Give(bytes); }
  };
  // What one model holds, given back in the destructor.
  using Share = std::unique_ptr<MemoryBudget, GiveBack>;

  // Stays free for the driver and for others when no limit is set.
  static constexpr uint64_t kReserve = uint64_t{256} << 20;

  // `limit` 0: all that is free, less kReserve.
  static std::shared_ptr<MemoryBudget> Create(uint64_t limit) {
    return std::shared_ptr<MemoryBudget>(new MemoryBudget(limit));
  }

  // Bytes that may still be taken, when `free` bytes of the GPU's memory are free.
  uint64_t Left(uint64_t free) const;
  // Bytes that models hold.
  uint64_t used() const;
  // Errors: RESOURCE_EXHAUSTED naming what is needed, allowed and used.
  absl::StatusOr<Share> Take(uint64_t bytes, uint64_t free);

 private:
  explicit MemoryBudget(uint64_t limit) : limit_(limit) {}
  uint64_t Allowed(uint64_t free) const;  // with mutex_ held
  void Give(uint64_t bytes);

  const uint64_t limit_;
  mutable std::mutex mutex_;
  uint64_t used_ = 0;
};

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_MEMORY_BUDGET_H_
