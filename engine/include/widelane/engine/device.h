// What scores: the CPU, or one GPU.

#ifndef WIDELANE_ENGINE_DEVICE_H_
#define WIDELANE_ENGINE_DEVICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace widelane {

struct DeviceInfo {
  // Label of metrics and replies: "cpu", or the GPU's UUID ("GPU-...").
  std::string id;
  // "AMD EPYC ..., avx512" or "NVIDIA H200".
  std::string name;
  // Position among the visible GPUs; -1 for the CPU.
  int index = -1;
  // "0000:17:00.0"; empty for the CPU.
  std::string pci_address;
  // Bytes the device has; 0 where it is not told.
  uint64_t memory_bytes = 0;
};

// Which devices a server uses, from `--devices`.
struct DeviceSelection {
  enum class Kind { kAuto, kCpu, kGpu, kList };
  Kind kind = Kind::kAuto;
  // For kList: positions among the visible GPUs, in the order given, no repeats.
  std::vector<int> gpus;
};

// "auto": the CPU, and all GPUs where there are some (without, it says so). "cpu". "gpu": all GPUs, and an error
// without one. "0,2": these of the visible GPUs. Errors: INVALID_ARGUMENT naming what is wrong.
absl::StatusOr<DeviceSelection> ParseDevices(const std::string& text);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_DEVICE_H_
