#include "server/observe/stripes.h"

#include <mutex>

namespace widelane {

namespace {

// Stripes that no thread has. What a thread wrote to its stripe is seen by the next owner, since both lock.
class FreeStripes {
 public:
  size_t Take() {
    const std::lock_guard lock(mutex_);
    for (size_t stripe = 0; stripe < kSharedStripe; ++stripe) {
      if (taken_[stripe]) continue;
      taken_[stripe] = true;
      return stripe;
    }
    return kSharedStripe;
  }
  void Give(size_t stripe) {
    const std::lock_guard lock(mutex_);
    taken_[stripe] = false;
  }

 private:
  std::mutex mutex_;
  std::array<bool, kStripes> taken_{};
};

// Never destroyed: threads may end after it would be.
FreeStripes& Free() {
  static auto& free = *new FreeStripes;
  return free;
}

struct Owned {
  Owned() : stripe(Free().Take()) {}
  ~Owned() {
    internal::own_stripe = kSharedStripe;  // for what else the thread does while it ends
    Free().Give(stripe);
  }
  const size_t stripe;
};

}  // namespace

namespace internal {

constinit thread_local size_t own_stripe = kStripes;

size_t TakeStripe() {
  thread_local const Owned owned;
  return own_stripe = owned.stripe;
}

}  // namespace internal

}  // namespace widelane
