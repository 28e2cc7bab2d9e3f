// Settings of the engine. Each default is written here and nowhere else.

#ifndef WIDELANE_ENGINE_OPTIONS_H_
#define WIDELANE_ENGINE_OPTIONS_H_

#include <cstddef>
#include <cstdint>

#include "widelane/engine/device.h"

namespace widelane {

// Instruction set of the CPU kernels.
enum class InstructionSet : uint8_t { kBest, kPlain, kAvx2, kAvx512 };

// What options may be set to; the least is 1 where nothing else is said.
struct EngineLimits {
  static constexpr uint32_t kMaxSlabSize = 1U << 30;  // rows, entries and results alike
  static constexpr size_t kMaxSlabs = 1024;
  static constexpr size_t kMaxLanes = 16;
  static constexpr size_t kMaxCpuThreads = 4096;
};

struct SlabOptions {
  uint32_t rows = 1 << 18;     // rows a batch may hold
  uint32_t entries = 1 << 22;  // entries a batch may hold; also the longest row
  uint32_t results = 1 << 21;  // rows x outputs a batch may hold; also the most outputs of a model
};

struct EngineOptions {
  DeviceSelection devices;
  SlabOptions slab;
  size_t slabs = 6;        // batches that may be filling, waiting or running at once
  size_t lanes = 2;        // streams per GPU
  size_t cpu_threads = 0;  // 0: as many as affinity mask and CPU quota allow
  InstructionSet instruction_set = InstructionSet::kBest;
  // Work is (entries + rows) x outputs. A batch below this is scored on the calling thread.
  uint64_t inline_work = 1 << 14;
  // With GPUs and `auto`, a batch below this goes to the CPU.
  uint64_t gpu_work = 1 << 16;
  // A batch is cut over GPUs into pieces of at least this much work.
  uint64_t piece_work = 1 << 20;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_OPTIONS_H_
