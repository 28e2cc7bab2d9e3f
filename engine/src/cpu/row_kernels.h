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
  const void* weights;
  const double* bias;
  const double* scale;
  double max_weight;
  uint32_t outputs;
  WeightType weight_type;
  Link link;
};

// Scores rows [first, first + rows) of `batch`. `sums` and `raw` are scratch of [outputs].
using ScoreRowsFunction = void (*)(const KernelModel& model, const BatchView& batch, uint32_t first, uint32_t rows,
                                   int64_t* sums, double* raw);

namespace plain {
void ScoreRows(const KernelModel& model, const BatchView& batch, uint32_t first, uint32_t rows, int64_t* sums,
               double* raw);
}
namespace avx2 {
void ScoreRows(const KernelModel& model, const BatchView& batch, uint32_t first, uint32_t rows, int64_t* sums,
               double* raw);
}
namespace avx512 {
void ScoreRows(const KernelModel& model, const BatchView& batch, uint32_t first, uint32_t rows, int64_t* sums,
               double* raw);
}

}  // namespace widelane::cpu

#endif  // WIDELANE_ENGINE_SRC_CPU_ROW_KERNELS_H_
