// Which row kernels this machine can run.

#ifndef WIDELANE_ENGINE_SRC_CPU_CPU_FEATURES_H_
#define WIDELANE_ENGINE_SRC_CPU_CPU_FEATURES_H_

#include "absl/status/statusor.h"
#include "cpu/row_kernels.h"
#include "widelane/engine/options.h"

namespace widelane::cpu {

struct RowKernels {
  ScoreRowsFunction score_rows;
  const char* name;  // "plain", "avx2", "avx512"
};

// The kernels of `set`, or the widest there are for kBest. Errors: FAILED_PRECONDITION when the machine lacks the set.
absl::StatusOr<RowKernels> ChooseRowKernels(InstructionSet set);

}  // namespace widelane::cpu

#endif  // WIDELANE_ENGINE_SRC_CPU_CPU_FEATURES_H_
