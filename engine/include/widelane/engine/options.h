// Settings of the engine. Each default is written here and nowhere else.

#ifndef WIDELANE_ENGINE_OPTIONS_H_
#define WIDELANE_ENGINE_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "widelane/engine/device.h"
#include "widelane/engine/route.h"

namespace widelane {

// Instruction set of the CPU kernels.
enum class InstructionSet : uint8_t { kBest, kPlain, kAvx2, kAvx512 };

// What sums rows on GPUs.
enum class SumKernel : uint8_t {
  kExact,     // ours: the numeric contract
  kCusparse,  // cuSPARSE in float32, opened at run time; for comparison only, outside the contract
};

// What options may be set to; the least is 1 where nothing else is said.
struct EngineLimits {
  static constexpr uint32_t kMaxSlabSize = 1U << 30;  // rows, entries and results alike
  static constexpr size_t kMaxSlabs = 1024;
  static constexpr size_t kMaxLanes = 16;
  static constexpr size_t kMaxCpuThreads = 4096;
  static constexpr size_t kMinLaneBytes = 1 << 16;
  static constexpr size_t kMaxSpinMicroseconds = 100000;  // the least is 0
};

struct SlabOptions {
  uint32_t rows = 1 << 18;     // rows a batch may hold
  uint32_t entries = 1 << 22;  // entries a batch may hold; also the longest row
  uint32_t results = 1 << 21;  // rows x outputs a batch may hold; also the most outputs of a model
  // Lines x outputs of context sums a batch may hold (context_sums.h).
  uint32_t context_sums = 1 << 17;
};

struct EngineOptions {
  DeviceSelection devices;
  SlabOptions slab;
  size_t slabs = 6;        // batches that may be filling, waiting or running at once
  size_t lanes = 2;        // batches, or pieces of one, that a GPU works on at once
  size_t cpu_threads = 0;  // 0: as many as affinity mask and CPU quota allow
  InstructionSet instruction_set = InstructionSet::kBest;
  // Where batches go; kAuto: where they will be done first, by measured costs.
  Route route = Route::kAuto;
  SumKernel kernel = SumKernel::kExact;
  // Device memory of a lane for entries (indices and values); batches that are larger stream through it.
  size_t lane_bytes = 32 << 20;
  // Bytes of a GPU's memory that models may take; 0: all that is free when a model is loaded, less a reserve.
  uint64_t gpu_memory = 0;
  // How long an idle thread of the CPU pool or of a GPU looks for work before it sleeps; waking a sleeping thread costs
  // more than a small batch. Absent: 50 where there are at least 4 cores and no CPU quota, else 0.
  std::optional<size_t> spin_microseconds;
  // Whether Load measures what batches cost; without, rough figures take their place (tests).
  bool measure_costs = true;
  // Stop the process when a copy starts from memory that is not pinned (tests).
  bool check_pinned = false;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_OPTIONS_H_
