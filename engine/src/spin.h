// Looking for work, or for its end, a little while before sleeping: waking a thread takes longer than a small batch.

#ifndef WIDELANE_ENGINE_SRC_SPIN_H_
#define WIDELANE_ENGINE_SRC_SPIN_H_

#include <chrono>

#include "widelane/engine/options.h"
#include "widelane/engine/usable_cores.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace widelane {

// options.spin_microseconds, or its default. Reads files of the system: to be asked once. On few cores a thread that
// looks takes the time of one that works, and under a quota the process is stopped for it.
inline std::chrono::microseconds SpinTime(const EngineOptions& options) {
  constexpr size_t kDefaultMicroseconds = 50;
  constexpr size_t kLeastCores = 4;
  const size_t fallback = UsableCores() >= kLeastCores && !HasCpuQuota() ? kDefaultMicroseconds : 0;
  return std::chrono::microseconds(options.spin_microseconds.value_or(fallback));
}

// Tells the core that its thread is waiting.
inline void CpuPause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Asks `done()` until it says yes or `time` is over; what it said last. Asks once even if `time` is 0.
template <typename Done>
bool SpinUntil(std::chrono::microseconds time, const Done& done) {
  if (done()) return true;
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    CpuPause();
    if (done()) return true;
  }
  return false;
}

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_SPIN_H_
