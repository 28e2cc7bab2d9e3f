#include "cuda/memory_budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace widelane::cuda {

uint64_t MemoryBudget::Allowed(uint64_t free) const {
  if (limit_ == 0) return free - std::min(free, kReserve);
  return std::min(limit_ - std::min(limit_, used_), free);
}

uint64_t MemoryBudget::Left(uint64_t free) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Allowed(free);
}

uint64_t MemoryBudget::used() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return used_;
}

absl::StatusOr<MemoryBudget::Share> MemoryBudget::Take(uint64_t bytes, uint64_t free) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const uint64_t allowed = Allowed(free); bytes > allowed) {
    const std::string limit = limit_ == 0 ? absl::StrCat("all but ", kReserve) : absl::StrCat("a budget of ", limit_);
    return absl::ResourceExhaustedError(
        absl::StrCat("the model needs ", bytes, " bytes of the GPU's memory; models may take ", allowed,
                     " more: ", limit, ", of which they hold ", used_, ", and ", free, " free"));
  }
  used_ += bytes;
  return Share(this, GiveBack{shared_from_this(), bytes});
}

void MemoryBudget::Give(uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  used_ -= bytes;
}

}  // namespace widelane::cuda
