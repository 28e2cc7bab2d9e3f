// How a batch is laid over blocks and threads: plain arithmetic, without CUDA, used by host and kernels alike, tested
// on any machine. README.md beside this explains the shapes. All functions are pure.

#ifndef WIDELANE_ENGINE_SRC_CUDA_LAUNCH_PLAN_H_
#define WIDELANE_ENGINE_SRC_CUDA_LAUNCH_PLAN_H_

#include <cstddef>
#include <cstdint>

#include "widelane/engine/model_types.h"

#if defined(__CUDACC__)
#define WIDELANE_HOST_DEVICE __host__ __device__
#else
#define WIDELANE_HOST_DEVICE
#endif

namespace widelane::cuda {

inline constexpr uint32_t kWarp = 32;
inline constexpr uint32_t kBlockThreads = 256;
// Up to this many outputs, a row's outputs fit side by side in a warp ("narrow"); above, a block works on one row
// ("wide").
inline constexpr uint32_t kMaxNarrowOutputs = kWarp;

// Long rows. A row with more entries than RowLimit is cut into pieces, each with a block of its own.

// The least RowLimit of any model. Twice that, the longest piece, is below numeric::kMaxSplitTerms, as no thread may
// add up more.
inline constexpr uint32_t kLeastRowLimit = 255;
// For models with `outputs` >= 1 outputs.
uint32_t RowLimit(uint32_t outputs);

// A part of a long row.
struct Piece {
  uint32_t row;     // as the call's arrays number it
  uint32_t begin;   // first entry, as indices number them
  uint32_t length;  // 1 to 2 * RowLimit
};

// Pieces (and long rows) of a batch of `entries` never exceed this, whatever the model.
constexpr size_t MaxPieces(uint32_t entries) { return entries / kLeastRowLimit + 1; }

struct PieceCount {
  uint32_t pieces = 0;
  uint32_t long_rows = 0;
};

// Finds the long rows among rows [first_row, first_row + rows) and cuts them; `row_begin` is that of the whole arrays,
// in host memory. `pieces` and `long_rows` have room for MaxPieces of the rows' entries.
PieceCount CutLongRows(uint32_t outputs, const uint32_t* row_begin, uint32_t first_row, uint32_t rows,
                       uint32_t first_entry, Piece* pieces, uint32_t* long_rows);

// Scratch with which calls of up to `results` rows x outputs, or a single row of a model with that many outputs, go in
// one launch; with best outputs in one or several.
constexpr size_t ScratchBytes(size_t results) { return results * 16 + (size_t{1} << 16); }

// The kernels that sum.

enum class SumKind : uint8_t {
  kGroupsBy4,  // one output: a warp for each group of rows, 4 lanes a row
  kGroupsBy8,  // 8 lanes a row
  kShared,     // one output: the same, all weights in shared memory
  kWarpRows,   // one output: a warp for each row, or a few
  kNarrow,     // up to kMaxNarrowOutputs
  kWide,       // more
};

// What a plan depends on.
struct SumShape {
  uint32_t outputs = 1;
  uint32_t rows = 1;
  uint32_t entries = 0;
  uint64_t weight_bytes = 0;  // the zero feature's included
  WeightType weight_type = WeightType::kFloat32;
  bool split = true;  // numeric::MaySplit
  uint32_t multiprocessors = 1;
  size_t shared_bytes = 0;  // that a block may have
};

struct SumPlan {
  SumKind kind = SumKind::kNarrow;
  uint32_t blocks = 0;
  uint32_t block_threads = kBlockThreads;
  size_t shared_bytes = 0;
  // kWarpRows and kNarrow: rows of a warp, a power of two.
  uint32_t warp_rows = kWarp;
  // kNarrow: lanes of a warp that stand side by side over a row's outputs, as a logarithm.
  uint32_t output_lanes_log2 = 0;
  // kWide: outputs of a thread, whether they lie side by side in memory as far as one load of up to 16 bytes brings
  // (else each alone), outputs of a block, and blocks of a row.
  uint32_t thread_outputs = 0;
  bool vector = false;
  uint32_t tile = 0;
  uint32_t tiles = 1;
};

// Rows must be at most 2^30; slab limits are no greater.
SumPlan PlanSums(const SumShape& shape);

// What a lane of a narrow model does: entries entry, entry + stride, ... of a row, for one output.
struct NarrowSlot {
  uint32_t entry;   // first entry of the lane
  uint32_t stride;  // to its next
  uint32_t output;  // may be beyond the model's outputs: such a lane only keeps step
};

// When `threads` threads, a warp or a block, work on one row or piece.
WIDELANE_HOST_DEVICE constexpr NarrowSlot SlotOf(uint32_t output_lanes_log2, uint32_t threads, uint32_t thread) {
  return {thread >> output_lanes_log2, threads >> output_lanes_log2, thread & ((1U << output_lanes_log2) - 1)};
}

// Threads of a row where shares are normalised over outputs: a power of two up to a warp, or kBlockThreads.
uint32_t NormaliseRowThreads(uint32_t outputs);
uint32_t NormaliseBlocks(uint32_t rows, uint32_t row_threads);

// Blocks of a kernel whose threads stride over `items` >= 1 of equal work.
uint32_t StrideBlocks(uint64_t items);

// Threads that pick a row's best from `items` items, each looking at kPickItems at a time.
inline constexpr uint32_t kPickItems = 8;
uint32_t PickThreads(uint64_t items);

// How a call's scratch is used, and how many of its rows go at once.
struct ScratchShape {
  uint32_t outputs = 1;
  uint32_t rows = 1;
  size_t bytes = 0;       // of scratch
  bool sums = false;      // 8 bytes for each row and output
  size_t candidates = 0;  // kCandidateBytes each, for each row
};
inline constexpr size_t kCandidateBytes = 16;

struct ScratchPlan {
  uint32_t rows = 0;             // of a step; all, or a multiple of kWarp unless the model is wide. 0: too little
  size_t candidates_offset = 0;  // in bytes; sums lie at 0
};
ScratchPlan PlanScratch(const ScratchShape& shape);

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_LAUNCH_PLAN_H_
