// Starts the kernels. The kernels themselves are in the .cu files; README.md beside this describes them.
//
// Each function works on the thread's current device and returns the runtime's code; nothing here waits or allocates.

#ifndef WIDELANE_ENGINE_SRC_CUDA_KERNELS_H_
#define WIDELANE_ENGINE_SRC_CUDA_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/launch_plan.h"
#include "widelane/engine/batch_view.h"
#include "widelane/engine/model_types.h"

namespace widelane::cuda {

// Arrays of sums over the entries of other GPUs' features that LaunchFinishPartial adds up at once.
inline constexpr uint32_t kMaxPartials = 16;

// One call of the kernels. Pointers are to device memory, to pinned host memory as the device sees it, or to another
// device's memory that this one may access; `scratch` is device memory. Row r of the call is row first_row + r of every
// array with [rows]: a caller passes whole arrays and walks over them.
struct ScoreArguments {
  // The model, as in model.h, or a part of it: `weights` holds those of features [first_feature, first_feature +
  // features), and behind them one more feature whose weights are zero. Entries of other features count nothing.
  const void* weights = nullptr;  // 16-byte aligned
  const double* bias = nullptr;
  const double* scale = nullptr;
  double max_weight = 0;  // of the whole model
  uint32_t features = 0;
  uint32_t first_feature = 0;
  uint32_t outputs = 0;
  WeightType weight_type = WeightType::kFloat32;
  Link link = Link::kIdentity;

  // The rows. Entry e of the batch is element e - first_entry of indices and values.
  uint32_t rows = 0;         // > 0
  uint32_t first_row = 0;    // a multiple of kGroupRows
  uint32_t first_entry = 0;  // any, as long as no row of the call begins before it
  uint32_t entries = 0;      // of the call's rows
  // Where rows begin and end: uniform_length, or group_begin with either of the lengths, or row_begin alone. The arrays
  // are as in batch_view.h.
  uint32_t uniform_length = 0;  // > 0: entries of every row; the four arrays are not read
  uint32_t uniform_begin = 0;   // the entry with which row 0 of arrays with [rows] begins, where rows are uniform
  const uint32_t* group_begin = nullptr;  // [rows / kGroupRows, rounded up]
  const uint8_t* lengths8 = nullptr;      // [rows]
  const uint16_t* lengths16 = nullptr;    // [rows]
  const uint32_t* row_begin = nullptr;    // [rows + 1]; not read where there are lengths
  // Exactly one. Aligned to their type; the 8-byte words that hold the first and the last index are readable in whole.
  const uint16_t* indices16 = nullptr;
  const uint32_t* indices32 = nullptr;
  const uint16_t* values16 = nullptr;  // at most one of the two; none: all are 1
  const float* values32 = nullptr;
  const float* row_max = nullptr;  // [rows]; null: all are 1
  // Sums in steps of each row's grid that are added to its own, as in batch_view.h; null: there are none. Partial sums
  // are without.
  const int64_t* context_sums = nullptr;   // [lines][outputs]
  const uint16_t* context_line = nullptr;  // [rows]

  // The call's long rows, as CutLongRows found them.
  PieceCount cut;
  const Piece* pieces = nullptr;
  const uint32_t* long_rows = nullptr;

  // Results. Those that are null are not wanted. `partial` alone, or `best_outputs` and `best_scores`, or any of `raw`
  // and `scores`.
  double* raw = nullptr;             // [rows][outputs]
  float* scores = nullptr;           // [rows][outputs]
  uint32_t best = 0;                 // 1 to kMaxBest and the outputs, for the next two
  uint32_t* best_outputs = nullptr;  // [rows][best]
  float* best_scores = nullptr;      // [rows][best]
  int64_t* partial = nullptr;        // [rows][outputs]: sums in steps of each row's grid, for LaunchFinishPartial

  // Memory for what lies between kernels; calls on one stream may share it. At least ScratchBytes(outputs); with less
  // than ScratchBytes(rows x outputs) the call may go in several launches.
  void* scratch = nullptr;  // 256-byte aligned
  size_t scratch_bytes = 0;
};

// Everything between the copies in and the copies out. cudaErrorInvalidConfiguration for sizes beyond a launch,
// cudaErrorInvalidValue for too little scratch.
cudaError_t LaunchScore(const ScoreArguments& arguments, cudaStream_t stream);

// Adds `count` arrays [rows][outputs] that LaunchScore wrote as `partial` (row r of the call at first_row + r), 1 to
// kMaxPartials, and goes on to the results. Of the batch it reads row_max and contexts only.
cudaError_t LaunchFinishPartial(const ScoreArguments& arguments, const int64_t* const* partials, uint32_t count,
                                cudaStream_t stream);

// Scores or best outputs from raw sums [rows][outputs] that something else made. Of the batch it reads nothing.
cudaError_t LaunchFinishRaw(const ScoreArguments& arguments, const double* raw, cudaStream_t stream);

// Loads every kernel onto the current device, so that no first batch waits for it. Fails with
// cudaErrorNoKernelImageForDevice when this build has no code for the device. To be called once for each device before
// anything is launched there: kernels with much shared memory are allowed it here.
cudaError_t PrepareKernels();

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_KERNELS_H_
