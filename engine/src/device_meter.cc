#include "device_meter.h"

namespace widelane {

namespace {

// From the lowest bit on: callers, those of queues, and when the first of all began.
constexpr int kCallerBits = 14;
constexpr int kQueueBits = 6;
constexpr int kCountBits = kCallerBits + kQueueBits;
constexpr uint64_t kCallerMask = (uint64_t{1} << kCallerBits) - 1;
constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;
// 256 ns, so that the rest of the bits last for 52 days without a pause. What is cut off at the beginning and at the
// end is the same on average.
constexpr int64_t kTickNs = 256;
constexpr uint64_t kTickMask = ~uint64_t{0} >> kCountBits;
// 18 minutes: no thread is held up for so long between reading the clock and noting what it read.
constexpr uint64_t kMostHeldUp = uint64_t{1} << 32;

// Of a time that was noted and one that was read before or after.
uint64_t Later(uint64_t noted, uint64_t read) { return ((noted - read) & kTickMask) < kMostHeldUp ? noted : read; }

}  // namespace

uint64_t BusyMeter::One(Who who) { return who == Who::kCaller ? 1 : uint64_t{1} << kCallerBits; }

uint64_t BusyMeter::Counts(uint64_t state) { return state & kCountMask; }

uint32_t BusyMeter::Count(uint64_t state, Who who) {
  return static_cast<uint32_t>(who == Who::kCaller ? state & kCallerMask : Counts(state) >> kCallerBits);
}

uint64_t BusyMeter::Ticks(TimePoint time) {
  const std::chrono::nanoseconds ns = time.time_since_epoch();
  return static_cast<uint64_t>(ns.count() / kTickNs) & kTickMask;
}

// Threads read the clock before they say so: an end may be earlier than the beginning that another noted.
uint64_t BusyMeter::TicksSince(uint64_t state, TimePoint now) {
  const uint64_t ticks = (Ticks(now) - (state >> kCountBits)) & kTickMask;
  return ticks > kTickMask - kMostHeldUp ? 0 : ticks;
}

uint32_t BusyMeter::Begin(Who who, TimePoint now) {
  uint64_t state = state_.load(std::memory_order_relaxed);
  uint64_t next = 0;
  do {
    next = (Counts(state) == 0 ? Later(state >> kCountBits, Ticks(now)) << kCountBits : state) + One(who);
  } while (!state_.compare_exchange_weak(state, next, std::memory_order_acq_rel, std::memory_order_relaxed));
  return Count(state, who);
}

void BusyMeter::End(Who who, TimePoint now) {
  uint64_t state = state_.load(std::memory_order_relaxed);
  uint64_t next = 0;
  do {
    next = state - One(who);
    if (Counts(next) == 0) next = Later(state >> kCountBits, Ticks(now)) << kCountBits;
  } while (!state_.compare_exchange_weak(state, next, std::memory_order_acq_rel, std::memory_order_relaxed));
  if (Counts(next) == 0) ticks_.fetch_add(TicksSince(state, now), std::memory_order_relaxed);
}

uint32_t BusyMeter::all() const {
  const uint64_t state = state_.load(std::memory_order_acquire);
  return Count(state, Who::kCaller) + Count(state, Who::kQueue);
}

std::chrono::nanoseconds BusyMeter::Busy(TimePoint now) const {
  // In this order: a time that ends meanwhile is missed rather than counted twice.
  uint64_t ticks = ticks_.load(std::memory_order_acquire);
  const uint64_t state = state_.load(std::memory_order_acquire);
  if (Counts(state) != 0) ticks += TicksSince(state, now);
  return std::chrono::nanoseconds(static_cast<int64_t>(ticks) * kTickNs);
}

}  // namespace widelane
