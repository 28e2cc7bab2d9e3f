#include "server/observe/nvml.h"

#include <dlfcn.h>

#include <type_traits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace widelane {

namespace {

constexpr int kSuccess = 0;
constexpr int kTemperatureOfGpu = 0;
constexpr int kSent = 0;  // counters of PCI Express, from the GPU's side
constexpr int kReceived = 1;
constexpr int kSmClock = 1;
constexpr int kMemoryClock = 2;

struct Utilization {
  unsigned gpu;  // percent
  unsigned memory;
};

struct Memory {
  unsigned long long total;  // bytes
  unsigned long long free;
  unsigned long long used;
};

absl::Status LoaderError() {
  const char* text = dlerror();
  return absl::UnavailableError(text == nullptr ? "NVML is not found" : text);
}

}  // namespace

// All return 0 or an error's number. Null: this version of the library has no such function.
struct Nvml::Functions {
  int (*init)();
  int (*shutdown)();
  const char* (*error_string)(int code);
  int (*find)(const char* uuid, Gpu* gpu);
  int (*utilization)(Gpu gpu, Utilization* rates);
  int (*memory)(Gpu gpu, Memory* memory);
  int (*power)(Gpu gpu, unsigned* milliwatts);
  int (*temperature)(Gpu gpu, int sensor, unsigned* celsius);
  int (*clock)(Gpu gpu, int clock, unsigned* megahertz);
  int (*traffic)(Gpu gpu, int counter, unsigned* kilobytes_per_second);
};

// Stays loaded once it was there (NODELETE): nothing is gained by unloading it, and a library that has talked to a
// driver in trouble may not bear it.
absl::StatusOr<std::unique_ptr<Nvml>> Nvml::Open(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) return LoaderError();
  auto nvml = std::unique_ptr<Nvml>(new Nvml(handle));
  if (absl::Status status = nvml->FindFunctions(); !status.ok()) return status;
  if (const int code = nvml->functions_->init(); code != kSuccess) return nvml->Error("nvmlInit", code);
  nvml->initialized_ = true;
  return nvml;
}

Nvml::Nvml(void* library) : library_(library), functions_(std::make_unique<Functions>()) {}

Nvml::~Nvml() {
  if (initialized_) functions_->shutdown();
  dlclose(library_);
}

absl::Status Nvml::FindFunctions() {
  const auto find = [this](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library_, name));
    return function != nullptr;
  };
  if (!find(functions_->init, "nvmlInit_v2") || !find(functions_->shutdown, "nvmlShutdown") ||
      !find(functions_->error_string, "nvmlErrorString") || !find(functions_->find, "nvmlDeviceGetHandleByUUID")) {
    return LoaderError();
  }
  find(functions_->utilization, "nvmlDeviceGetUtilizationRates");
  find(functions_->memory, "nvmlDeviceGetMemoryInfo");
  find(functions_->power, "nvmlDeviceGetPowerUsage");
  find(functions_->temperature, "nvmlDeviceGetTemperature");
  find(functions_->clock, "nvmlDeviceGetClockInfo");
  find(functions_->traffic, "nvmlDeviceGetPcieThroughput");
  return absl::OkStatus();
}

absl::Status Nvml::Error(const char* call, int code) const {
  const char* text = functions_->error_string(code);
  return absl::UnavailableError(absl::StrCat(call, ": ", text == nullptr ? "unknown error" : text, " (", code, ")"));
}

// CUDA tells the UUID of a MIG instance as it tells a GPU's, without what stands before it; NVML wants that.
absl::StatusOr<Nvml::Gpu> Nvml::Find(const std::string& device_id) const {
  Gpu gpu = nullptr;
  const int code = functions_->find(device_id.c_str(), &gpu);
  if (code == kSuccess) return gpu;
  constexpr absl::string_view kGpu = "GPU-";
  if (absl::StartsWith(device_id, kGpu)) {
    const std::string instance = absl::StrCat("MIG-", device_id.substr(kGpu.size()));
    if (functions_->find(instance.c_str(), &gpu) == kSuccess) return gpu;
  }
  return Error("nvmlDeviceGetHandleByUUID", code);
}

absl::StatusOr<GpuReading> Nvml::Read(Gpu gpu) const {
  absl::Status error;
  bool any = false;
  const auto good = [&](const char* name, auto* function, auto... arguments) {
    if (function == nullptr) return false;
    const int code = function(gpu, arguments...);
    if (code != kSuccess) error.Update(Error(name, code));
    any = any || code == kSuccess;
    return code == kSuccess;
  };
  const Functions& call = *functions_;
  GpuReading reading;
  if (Memory memory{}; good("nvmlDeviceGetMemoryInfo", call.memory, &memory)) {
    reading.memory_used_bytes = static_cast<double>(memory.used);
    reading.memory_bytes = static_cast<double>(memory.total);
  }
  if (Utilization rates{}; good("nvmlDeviceGetUtilizationRates", call.utilization, &rates)) {
    reading.utilization_ratio = rates.gpu / 100.0;
  }
  unsigned value = 0;
  if (good("nvmlDeviceGetPowerUsage", call.power, &value)) reading.power_watts = value / 1000.0;
  if (good("nvmlDeviceGetTemperature", call.temperature, kTemperatureOfGpu, &value)) {
    reading.temperature_celsius = value;
  }
  if (good("nvmlDeviceGetClockInfo", call.clock, kSmClock, &value)) reading.sm_clock_hertz = value * 1e6;
  if (good("nvmlDeviceGetClockInfo", call.clock, kMemoryClock, &value)) reading.memory_clock_hertz = value * 1e6;
  if (any) return reading;
  return error.ok() ? absl::UnavailableError("this version of NVML reads nothing we know") : error;
}

GpuTraffic Nvml::ReadTraffic(Gpu gpu) const {
  const auto read = [&](int counter) -> std::optional<double> {
    unsigned kilobytes = 0;
    if (functions_->traffic == nullptr || functions_->traffic(gpu, counter, &kilobytes) != kSuccess) return {};
    return kilobytes * 1e3;
  };
  return {.in = read(kReceived), .out = read(kSent)};
}

}  // namespace widelane
