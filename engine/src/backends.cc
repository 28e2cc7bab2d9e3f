#include "backends.h"

#include <sys/mman.h>

#include "absl/strings/str_cat.h"
#include "cpu/cpu_device.h"
#include "spin.h"
#include "widelane/engine/usable_cores.h"
#if defined(WIDELANE_CUDA)
#include "cuda/cuda_backend.h"
#endif

namespace widelane {

namespace {

// Pages that are had when first touched, so that slabs cost what is used of them.
class PlainHostMemory : public HostMemory {
 public:
  std::byte* Allocate(size_t bytes) override {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
  }
  void Free(std::byte* data, size_t bytes) override { munmap(data, bytes); }
};

struct Gpus {
  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<Device> sharded;
  std::unique_ptr<HostMemory> memory;
  std::string reason;
};

Gpus DiscoverGpus(const EngineOptions& options) {
#if defined(WIDELANE_CUDA)
  CudaDiscovery found = DiscoverCudaDevices(options.devices, options);
  return {std::move(found.devices), std::move(found.sharded), std::move(found.memory), std::move(found.reason)};
#else
  static_cast<void>(options);
  return {{}, nullptr, nullptr, "this build has no CUDA backend"};
#endif
}

// One thread for each core, the one that asks among them.
std::shared_ptr<ThreadPool> MakePool(const EngineOptions& options) {
  const size_t threads = options.cpu_threads > 0 ? options.cpu_threads : UsableCores();
  return std::make_shared<ThreadPool>(threads - 1, SpinTime(options));
}

}  // namespace

std::unique_ptr<HostMemory> MakePlainHostMemory() { return std::make_unique<PlainHostMemory>(); }

absl::StatusOr<Backends> MakeBackends(const EngineOptions& options) {
  using Kind = DeviceSelection::Kind;
  Backends backends;
  backends.pool = MakePool(options);
  absl::StatusOr<std::unique_ptr<Device>> cpu = MakeCpuDevice(options, backends.pool);
  if (!cpu.ok()) return cpu.status();
  backends.devices.push_back(*std::move(cpu));
  if (options.devices.kind != Kind::kCpu) {
    Gpus gpus = DiscoverGpus(options);
    if (gpus.devices.empty() && options.devices.kind != Kind::kAuto) {
      return absl::FailedPreconditionError(absl::StrCat("devices: no GPU can be used: ", gpus.reason));
    }
    (gpus.devices.empty() ? backends.fallback_reason : backends.left_out) = gpus.reason;
    backends.memory = std::move(gpus.memory);
    backends.sharded = std::move(gpus.sharded);
    for (std::unique_ptr<Device>& gpu : gpus.devices) backends.devices.push_back(std::move(gpu));
  }
  if (backends.memory == nullptr) backends.memory = MakePlainHostMemory();
  return backends;
}

}  // namespace widelane
