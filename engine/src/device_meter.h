// Counts what a device does, without a lock.

#ifndef WIDELANE_ENGINE_SRC_DEVICE_METER_H_
#define WIDELANE_ENGINE_SRC_DEVICE_METER_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "widelane/engine/use.h"

namespace widelane {

// Pieces that are worked on, and the time in which there is at least one. Any thread.
//
// Both counts and the beginning of that time are one atomic number, so that whoever ends the time knows when it began.
class BusyMeter {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // Who is at it: a thread that submitted the batch, or a queue. At most 16,383 and 63 at once.
  enum class Who : uint8_t { kCaller, kQueue };

  // One more from `now` on. Returns how many of these there were.
  uint32_t Begin(Who who, TimePoint now);
  // One of them less.
  void End(Who who, TimePoint now);

  uint32_t callers() const { return Count(state_.load(std::memory_order_acquire), Who::kCaller); }
  uint32_t all() const;
  // Up to `now`. Where an end is being noted the time may be missing for a moment.
  std::chrono::nanoseconds Busy(TimePoint now) const;

 private:
  static uint64_t One(Who who);
  static uint32_t Count(uint64_t state, Who who);
  static uint64_t Counts(uint64_t state);
  static uint64_t Ticks(TimePoint time);
  static uint64_t TicksSince(uint64_t state, TimePoint now);

  // While nobody is at it, when the last was: times are never counted twice.
  std::atomic<uint64_t> state_{0};
  std::atomic<uint64_t> ticks_{0};
};

// On cache lines of its own: of the CPU, all threads write it.
struct alignas(64) DeviceMeter {
  BusyMeter busy;
  std::atomic<uint64_t> bytes_in{0};
  std::atomic<uint64_t> bytes_out{0};
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_DEVICE_METER_H_
