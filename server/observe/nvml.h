// NVML, the library that comes with NVIDIA's driver and tells how GPUs are. Opened at run time, so that the same
// program runs where there is none; what we need of it is declared here and in the source.

#ifndef WIDELANE_SERVER_OBSERVE_NVML_H_
#define WIDELANE_SERVER_OBSERVE_NVML_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace widelane {

// What a GPU tells of itself, in base units. What it does not tell is absent: a MIG instance, for one, tells little
// more than its memory.
struct GpuReading {
  std::optional<double> utilization_ratio;  // of the last moment (up to a second): share of it in which a kernel ran
  std::optional<double> memory_used_bytes;  // by all processes
  std::optional<double> memory_bytes;
  std::optional<double> power_watts;
  std::optional<double> temperature_celsius;
  std::optional<double> sm_clock_hertz;
  std::optional<double> memory_clock_hertz;
};

// Bytes a second over PCI Express, from the GPU's side.
struct GpuTraffic {
  std::optional<double> in;
  std::optional<double> out;
};

// One thread at a time. Every call may take its time, and with a driver in trouble for ever.
class Nvml {
 public:
  // Errors: UNAVAILABLE in the loader's or the library's own words.
  static absl::StatusOr<std::unique_ptr<Nvml>> Open(const std::string& library);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // A GPU or MIG instance, until the library is closed.
  using Gpu = void*;
  // The one that the engine calls so. Errors: UNAVAILABLE.
  absl::StatusOr<Gpu> Find(const std::string& device_id) const;
  // Quick. UNAVAILABLE in the words of the first error when nothing can be read.
  absl::StatusOr<GpuReading> Read(Gpu gpu) const;
  // The library measures for 20 ms in each direction.
  GpuTraffic ReadTraffic(Gpu gpu) const;

 private:
  struct Functions;

  explicit Nvml(void* library);
  absl::Status FindFunctions();
  absl::Status Error(const char* call, int code) const;

  void* const library_;
  const std::unique_ptr<Functions> functions_;
  bool initialized_ = false;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_NVML_H_
