// Starts the kernels. The kernels themselves are in the .cu files; README.md beside this describes them.
//
// Each function works on the thread's current device and returns the runtime's code; nothing here waits.

#ifndef WIDELANE_ENGINE_SRC_CUDA_KERNELS_H_
#define WIDELANE_ENGINE_SRC_CUDA_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/launch_plan.h"
#include "widelane/engine/model_types.h"

namespace widelane::cuda {

// One call of the kernels: all pointers are to device memory. Entries are numbered within the call.
struct ScoreArguments {
  SumPlan plan;

  // The model, as in model.h.
  const void* weights = nullptr;
  const double* bias = nullptr;
  const double* scale = nullptr;
  double max_weight = 0;
  uint32_t outputs = 0;
  WeightType weight_type = WeightType::kFloat32;
  Link link = Link::kIdentity;

  // The rows: row r holds entries row_begin[r] - first_entry to row_begin[r + 1] - first_entry.
  uint32_t rows = 0;
  uint32_t first_entry = 0;
  const uint32_t* row_begin = nullptr;
  const uint16_t* indices16 = nullptr;  // exactly one of the two
  const uint32_t* indices32 = nullptr;
  const float* values = nullptr;   // null: all are 1
  const float* row_max = nullptr;  // null: all are 1

  // The long rows, as CutLongRows found them, and their sums, [long_rows][outputs].
  PieceCount cut;
  const Piece* pieces = nullptr;
  const uint32_t* long_rows = nullptr;
  int64_t* long_sums = nullptr;

  // Results, [rows][outputs]; null when not wanted, except that `raw` is needed for scores of a link that looks at all
  // outputs.
  double* raw = nullptr;
  float* scores = nullptr;
};

// Everything between the copies in and the copies out. rows > 0. cudaErrorInvalidConfiguration for sizes beyond a
// launch.
cudaError_t LaunchScore(const ScoreArguments& arguments, cudaStream_t stream);

// Loads every kernel onto the current device, so that no first batch waits for it. Fails with
// cudaErrorNoKernelImageForDevice when this build has no code for the device.
cudaError_t PrepareKernels();

// The steps of LaunchScore and PrepareKernels, one per .cu file.
cudaError_t LaunchSums(const ScoreArguments& arguments, cudaStream_t stream);
cudaError_t LaunchFinishLongRows(const ScoreArguments& arguments, cudaStream_t stream);
cudaError_t LaunchNormalise(const ScoreArguments& arguments, cudaStream_t stream);
cudaError_t PrepareSums();
cudaError_t PrepareFinish();

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_KERNELS_H_
