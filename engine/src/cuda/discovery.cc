#include "cuda/discovery.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cuda/cuda_error.h"
#include "cuda/current_device.h"
#include "cuda/kernels.h"

namespace widelane::cuda {
namespace {

using Gpus = absl::StatusOr<std::vector<DeviceInfo>>;

// "GPU-" and 8-4-4-4-12 hexadecimal digits, as nvidia-smi prints it.
std::string UuidText(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    absl::StrAppend(&text, absl::Hex(static_cast<unsigned char>(uuid.bytes[i]), absl::kZeroPad2));
  }
  return text;
}

absl::StatusOr<DeviceInfo> InfoOf(int index) {
  cudaDeviceProp properties;
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaGetDeviceProperties(&properties, index), index);
  DeviceInfo info;
  info.id = UuidText(properties.uuid);
  info.name = properties.name;
  info.index = index;
  info.pci_address =
      absl::StrFormat("%04x:%02x:%02x.0", properties.pciDomainID, properties.pciBusID, properties.pciDeviceID);
  info.memory_bytes = properties.totalGlobalMem;
  return info;
}

// Without a driver the runtime says that the driver is too old; people who have none would look in the wrong place.
absl::Status NoGpus(cudaError_t code) {
  (void)cudaGetLastError();
  int version = 0;
  const bool no_driver =
      code == cudaErrorInsufficientDriver && cudaDriverGetVersion(&version) == cudaSuccess && version == 0;
  return absl::UnavailableError(absl::StrCat(Describe(code), no_driver ? "; no NVIDIA driver library was found" : ""));
}

Gpus AskRuntime() {
  int count = 0;
  if (const cudaError_t code = cudaGetDeviceCount(&count); code != cudaSuccess) return NoGpus(code);
  if (count == 0) return NoGpus(cudaErrorNoDevice);
  std::vector<DeviceInfo> gpus;
  for (int i = 0; i < count; ++i) {
    absl::StatusOr<DeviceInfo> info = InfoOf(i);
    if (!info.ok()) return info.status();
    gpus.push_back(*std::move(info));
  }
  return gpus;
}

}  // namespace

Gpus VisibleGpus(std::chrono::milliseconds patience) {
  // Shared with the thread, which may outlive this call; a std::async would wait for it.
  auto answer = std::make_shared<std::promise<Gpus>>();
  std::future<Gpus> gpus = answer->get_future();
  std::thread([answer] { answer->set_value(AskRuntime()); }).detach();
  if (gpus.wait_for(patience) != std::future_status::ready) {
    return absl::UnavailableError(
        absl::StrCat("the NVIDIA driver did not answer within ", patience.count(), " ms; it was given up"));
  }
  return gpus.get();
}

absl::Status PrepareGpu(const DeviceInfo& gpu) {
  const ScopedDevice scope(gpu.index);
  if (!scope.status().ok()) return scope.status();
  const cudaError_t code = PrepareKernels();
  if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction) {
    (void)cudaGetLastError();
    return absl::FailedPreconditionError(
        absl::StrCat("this build has no code for the architecture of ", gpu.name, ": ", Describe(code)));
  }
  WIDELANE_CUDA_RETURN_IF_ERROR(code, gpu.index);
  return absl::OkStatus();
}

}  // namespace widelane::cuda
