#include "cuda/host_clock.h"

#include <utility>

#include "cuda/cuda_error.h"
#include "cuda/input_buffers.h"
#include "cuda/lane_work.h"

namespace widelane::cuda {
namespace {

constexpr std::chrono::seconds kRenewAfter{1};
// The base's time is known to half of what passed around its recording. More than this is worth another attempt.
constexpr std::chrono::microseconds kGoodWindow{20};
constexpr int kAttempts = 3;
// How long to look for the event before sleeping.
constexpr std::chrono::microseconds kPatience{1000};

}  // namespace

absl::StatusOr<std::unique_ptr<HostClock>> HostClock::Create(int device) {
  std::unique_ptr<HostClock> clock(new HostClock(device));
  absl::Status status = Keep(CreateTimedEvent(device), clock->base_);
  status.Update(Keep(CreateTimedEvent(device), clock->spare_));
  if (!status.ok()) return status;
  return clock;
}

absl::Status HostClock::Renew(cudaStream_t stream) {
  using Clock = std::chrono::steady_clock;
  if (base_time_ != TimePoint::min() && Clock::now() - base_time_ < kRenewAfter) return absl::OkStatus();
  // The best attempt counts.
  Clock::duration window = Clock::duration::max();
  for (int attempt = 0; attempt < kAttempts && window >= kGoodWindow; ++attempt) {
    const TimePoint before = Clock::now();
    WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventRecord(spare_.get(), stream), device_);
    if (absl::Status status = WaitFor(spare_.get(), kPatience, device_); !status.ok()) return status;
    const Clock::duration passed = Clock::now() - before;
    if (passed >= window) continue;
    window = passed;
    base_time_ = before + passed / 2;
    std::swap(base_, spare_);
  }
  return absl::OkStatus();
}

absl::StatusOr<HostClock::TimePoint> HostClock::At(cudaEvent_t event) const {
  const absl::StatusOr<std::chrono::nanoseconds> since = TimeBetween(base_.get(), event, device_);
  if (!since.ok()) return since.status();
  return base_time_ + *since;
}

}  // namespace widelane::cuda
