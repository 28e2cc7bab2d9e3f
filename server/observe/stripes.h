// Numbers that many threads add to and few read. Each thread has a stripe of its own, so that adding is a plain load
// and store on memory no other thread writes: a shared number costs every thread a wait for the others' caches.

#ifndef WIDELANE_SERVER_OBSERVE_STRIPES_H_
#define WIDELANE_SERVER_OBSERVE_STRIPES_H_

#include <array>
#include <atomic>
#include <cstddef>

namespace widelane {

// Threads beyond the first so many share the last stripe.
inline constexpr size_t kStripes = 48;
inline constexpr size_t kSharedStripe = kStripes - 1;

namespace internal {

extern constinit thread_local size_t own_stripe;  // kStripes: none yet
size_t TakeStripe();

}  // namespace internal

// The calling thread's, until it ends; another thread may have it then.
inline size_t OwnStripe() {
  const size_t own = internal::own_stripe;
  return own != kStripes ? own : internal::TakeStripe();
}

// Adds to a cell of stripe `stripe`, which is OwnStripe().
template <typename T>
void AddToCell(std::atomic<T>& cell, T amount, size_t stripe) {
  T value = cell.load(std::memory_order_relaxed);
  if (stripe != kSharedStripe) return cell.store(value + amount, std::memory_order_relaxed);
  while (!cell.compare_exchange_weak(value, value + amount, std::memory_order_relaxed)) {
  }
}

template <typename T>
class Striped {
 public:
  // Any thread; `stripe` is its OwnStripe(), asked once for all that it has to add.
  void Add(T amount, size_t stripe) { AddToCell(cells_[stripe].value, amount, stripe); }
  void Add(T amount) { Add(amount, OwnStripe()); }
  // What was added before, and perhaps some of what is being added.
  T Sum() const {
    T sum{};
    for (const Cell& cell : cells_) sum += cell.value.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(64) Cell {
    std::atomic<T> value{};
  };
  std::array<Cell, kStripes> cells_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_STRIPES_H_
