#include "widelane/engine/bus.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "cuda/cuda_error.h"
#include "cuda/current_device.h"
#include "cuda/owners.h"

namespace widelane {
namespace {

using std::chrono::nanoseconds;

constexpr size_t kWarmUps = 5;
constexpr size_t kCopies = 31;

// Polls, as a lane does: a thread that sleeps is woken microseconds late.
absl::Status CopyAndWait(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream, int gpu) {
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(to, from, bytes, kind, stream), gpu);
  cudaError_t code = cudaErrorNotReady;
  while (code == cudaErrorNotReady) code = cudaStreamQuery(stream);
  WIDELANE_CUDA_RETURN_IF_ERROR(code, gpu);
  return absl::OkStatus();
}

absl::StatusOr<nanoseconds> MedianCopy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                       cudaStream_t stream, int gpu) {
  std::array<nanoseconds, kCopies> times{};
  for (size_t i = 0; i < kWarmUps + kCopies; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (absl::Status status = CopyAndWait(to, from, bytes, kind, stream, gpu); !status.ok()) return status;
    if (i >= kWarmUps) times[i - kWarmUps] = std::chrono::steady_clock::now() - start;
  }
  std::nth_element(times.begin(), times.begin() + kCopies / 2, times.end());
  return times[kCopies / 2];
}

}  // namespace

absl::StatusOr<BusTimes> MeasureBus(int gpu, size_t bytes) {
  const cuda::ScopedDevice scope(gpu);
  if (!scope.status().ok()) return scope.status();
  const auto host = cuda::CreatePinnedBuffer<std::byte>(bytes, gpu);
  if (!host.ok()) return host.status();
  const auto device = cuda::CreateDeviceBuffer<std::byte>(bytes, gpu);
  if (!device.ok()) return device.status();
  const auto stream = cuda::CreateStream(gpu);
  if (!stream.ok()) return stream.status();
  const auto to_device = MedianCopy(device->data(), host->data(), bytes, cudaMemcpyHostToDevice, stream->get(), gpu);
  if (!to_device.ok()) return to_device.status();
  const auto to_host = MedianCopy(host->data(), device->data(), bytes, cudaMemcpyDeviceToHost, stream->get(), gpu);
  if (!to_host.ok()) return to_host.status();
  return BusTimes{*to_device, *to_host};
}

absl::StatusOr<GpuMemory> MeasureGpuMemory(int gpu) {
  const cuda::ScopedDevice scope(gpu);
  if (!scope.status().ok()) return scope.status();
  size_t available = 0;
  size_t total = 0;
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaMemGetInfo(&available, &total), gpu);
  return GpuMemory{total - available, total};
}

}  // namespace widelane
