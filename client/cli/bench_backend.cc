#include "client/cli/bench_backend.h"

#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/cli/bench_memory.h"
#include "widelane/engine/bus.h"

namespace widelane::cli {
namespace {

constexpr std::array<const char*, 5> kNames = {"cpu", "gpu", "gpus", "auto", "cusparse"};

// On the GPUs in use, or 0 where it cannot be told.
uint64_t DeviceMemory(const Engine& engine) {
  uint64_t used = 0;
  for (const DeviceInfo& device : engine.devices()) {
    if (device.index < 0) continue;
    const absl::StatusOr<GpuMemory> memory = MeasureGpuMemory(device.index);
    if (memory.ok()) used += memory->used;
  }
  return used;
}

absl::Status LeaveOut(absl::string_view reason) { return absl::FailedPreconditionError(reason); }

}  // namespace

absl::StatusOr<BackendKind> ParseBackend(const std::string& name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<BackendKind>(i);
  }
  return absl::InvalidArgumentError(absl::StrCat("there is no backend '", name, "'; there are ", BackendNames()));
}

const char* BackendName(BackendKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::string BackendNames() { return absl::StrJoin(kNames, ", "); }

EngineOptions OptionsOf(BackendKind kind, const BackendSetup& setup) {
  using Kind = DeviceSelection::Kind;
  EngineOptions options;
  options.slab = setup.slab;
  options.slabs = setup.slabs;
  if (setup.threads.has_value()) options.cpu_threads = *setup.threads;
  if (setup.lane_bytes.has_value()) options.lane_bytes = *setup.lane_bytes;
  switch (kind) {
    case BackendKind::kCpu:
      options.devices.kind = Kind::kCpu;
      break;
    case BackendKind::kAuto:
      options.devices.kind = Kind::kAuto;
      break;
    case BackendKind::kGpus:
      options.devices.kind = setup.gpus.empty() ? Kind::kGpu : Kind::kList;
      options.devices.gpus = setup.gpus;
      break;
    case BackendKind::kCusparse:
      options.kernel = SumKernel::kCusparse;
      options.measure_costs = false;  // there is one route
      [[fallthrough]];
    case BackendKind::kGpu:
      options.devices.kind = Kind::kList;
      options.devices.gpus = {setup.gpus.empty() ? 0 : setup.gpus.front()};
      break;
  }
  return options;
}

absl::StatusOr<std::unique_ptr<BenchBackend>> BenchBackend::Create(BackendKind kind, const BackendSetup& setup,
                                                                   const std::shared_ptr<const Model>& model) {
  BenchMemory memory;
  memory.host_before = HostMemoryNow();
  ForgetHostPeak();
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(OptionsOf(kind, setup));
  if (!engine.ok()) {
    absl::string_view reason = engine.status().message();
    absl::ConsumePrefix(&reason, "devices: ");
    if (absl::IsFailedPrecondition(engine.status())) return LeaveOut(reason);
    return absl::Status(engine.status().code(), absl::StrCat("backend ", BackendName(kind), ": ", reason));
  }
  // The CPU is one of them.
  if (kind == BackendKind::kGpus && (*engine)->devices().size() < 3) return LeaveOut("there is only one GPU");
  auto backend = std::unique_ptr<BenchBackend>(new BenchBackend(kind, *std::move(engine)));
  memory.host_engine = HostMemoryNow();
  memory.device_engine = DeviceMemory(*backend->engine_);
  absl::StatusOr<std::shared_ptr<const LoadedModel>> loaded = backend->engine_->Load(model);
  if (!loaded.ok()) {
    if (absl::IsFailedPrecondition(loaded.status())) return LeaveOut(loaded.status().message());
    return absl::Status(loaded.status().code(),
                        absl::StrCat("backend ", BackendName(kind), ": ", loaded.status().message()));
  }
  backend->model_ = *std::move(loaded);
  memory.host_loaded = HostMemoryNow();
  memory.host_peak = HostMemoryPeak();
  memory.device_loaded = DeviceMemory(*backend->engine_);
  backend->memory_ = memory;
  return backend;
}

std::optional<int> BenchBackend::first_gpu() const {
  for (const DeviceInfo& device : engine_->devices()) {
    if (device.index >= 0) return device.index;
  }
  return std::nullopt;
}

}  // namespace widelane::cli
