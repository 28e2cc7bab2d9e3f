// Builds without CUDA.
#include "absl/status/status.h"
#include "widelane/engine/bus.h"

namespace widelane {
namespace {

absl::Status NoCuda() { return absl::UnimplementedError("this build has no CUDA backend"); }

}  // namespace

absl::StatusOr<BusTimes> MeasureBus(int /*gpu*/, size_t /*bytes*/) { return NoCuda(); }

absl::StatusOr<GpuMemory> MeasureGpuMemory(int /*gpu*/) { return NoCuda(); }

}  // namespace widelane
