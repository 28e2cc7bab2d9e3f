// When events of one GPU passed, by the host's clock.
//
// CUDA tells times between two events, in float milliseconds. So one event is recorded at a known time, and again about
// every second: floats are too coarse far from it.

#ifndef WIDELANE_ENGINE_SRC_CUDA_HOST_CLOCK_H_
#define WIDELANE_ENGINE_SRC_CUDA_HOST_CLOCK_H_

#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/owners.h"

namespace widelane::cuda {

// One thread at a time.
class HostClock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // On the current device, which is `device`.
  static absl::StatusOr<std::unique_ptr<HostClock>> Create(int device);

  // Before the work whose times are wanted. `stream` has nothing to do. Waits for the GPU for some microseconds, once a
  // second.
  absl::Status Renew(cudaStream_t stream);
  // Of a timed event that was recorded since and has passed.
  absl::StatusOr<TimePoint> At(cudaEvent_t event) const;

 private:
  explicit HostClock(int device) : device_(device) {}

  const int device_;
  Event base_;
  Event spare_;
  TimePoint base_time_ = TimePoint::min();
};

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_HOST_CLOCK_H_
