// Scoring rows on the CPU: one source (row_kernels.inc) compiled for several instruction sets, the best one chosen at
// run time.

#ifndef WIDELANE_ENGINE_SRC_CPU_ROW_KERNELS_H_
#define WIDELANE_ENGINE_SRC_CPU_ROW_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "widelane/engine/batch_view.h"
#include "widelane/engine/model_types.h"

namespace widelane::cpu {

// What the kernels need of a model, without classes, since nothing that is compiled for a wide instruction set may be
// shared.
struct KernelModel {
  const void* weights;  // what follows them up to a multiple of 4 bytes may be read
  const double* bias;
  const double* scale;
  double max_weight;
  uint32_t outputs;
  WeightType weight_type;
  Link link;
  bool prefetch;  // the weights lie beyond the caches
};

// Elements of each scratch array for a model with so many outputs: whole vectors of them, and enough to finish rows of
// few outputs together.
inline constexpr uint32_t kFewResults = 64;
constexpr uint32_t ScratchSize(uint32_t outputs) { return outputs < kFewResults ? kFewResults : (outputs + 7) / 8 * 8; }

// Of one thread; not initialised.
struct KernelScratch {
  uint64_t* sums;
  double* raw;
  double* shares;
};

// Scores rows [first, first + rows) of `batch`.
using ScoreRowsFunction = void (*)(const KernelModel& model, const BatchView& batch, uint32_t first, uint32_t rows,
                                   const KernelScratch& scratch);

namespace plain {
void ScoreRows(const KernelModel& model, const BatchView& batch, uint32_t first, uint32_t rows,
               const KernelScratch& scratch);
}
namespace avx2 {
void ScoreRows(const KernelModel& model, const BatchView& batch, uint32_t first, uint32_t rows,
               const KernelScratch& scratch);
}
namespace avx512 {
void ScoreRows(const KernelModel& model, const BatchView& batch, uint32_t first, uint32_t rows,
               const KernelScratch& scratch);
}

}  // namespace widelane::cpu

#endif  // WIDELANE_ENGINE_SRC_CPU_ROW_KERNELS_H_
