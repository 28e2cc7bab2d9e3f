// How a batch is laid over blocks and threads: plain arithmetic, without CUDA, used by host and kernels alike, tested
// on any machine. README.md beside this explains the shapes. All functions are pure.

#ifndef WIDELANE_ENGINE_SRC_CUDA_LAUNCH_PLAN_H_
#define WIDELANE_ENGINE_SRC_CUDA_LAUNCH_PLAN_H_

#include <cstddef>
#include <cstdint>

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
// Threads that share a row of a narrow model: more would idle on rows of a few dozen entries.
inline constexpr uint32_t kMinRowThreads = 16;
// Outputs that a thread of a wide model sums at once, so that more loads are in flight.
inline constexpr uint32_t kOutputsPerThread = 2;
// The least row that is cut into pieces has one entry more than this, for the models with the shortest limit.
inline constexpr uint32_t kLeastRowLimit = 256;

// Threads and blocks of the kernels that sum.
struct SumPlan {
  bool wide = false;
  // Narrow: threads of a row (16 or 32), and how many of them stand side by side over its outputs; both powers of two,
  // held as logarithms, since each thread of a kernel would otherwise divide five times.
  uint32_t row_threads_log2 = 0;
  uint32_t output_lanes_log2 = 0;
  // Wide: outputs of a block, kOutputsPerThread times its threads.
  uint32_t tile = 0;
  // Rows with more entries than this are cut into pieces of at most `piece_entries`.
  uint32_t row_limit = 0;
  uint32_t piece_entries = 0;
  uint32_t block_threads = 0;
};

// For models with `outputs` >= 1 outputs.
SumPlan PlanSums(uint32_t outputs);

struct GridSize {
  uint32_t x = 0;
  uint32_t y = 0;
};

// Blocks of the summing kernel: each piece's first, so that long work starts early, then the rows'. False when the grid
// is beyond what a launch may have, which slab limits rule out (see launch_plan.cc).
bool SumGrid(const SumPlan& plan, uint32_t rows, uint32_t outputs, uint32_t pieces, GridSize& grid);

// A part of a long row, summed by a block of its own.
struct Piece {
  uint32_t row;       // within the call
  uint32_t begin;     // first entry, within the call
  uint32_t length;    // > 0
  uint32_t long_row;  // position of the row among the long ones
};

// Pieces (and long rows) of a batch of `entries` never exceed this, whatever the model.
constexpr size_t MaxPieces(uint32_t entries) { return entries / kLeastRowLimit + 1; }

struct PieceCount {
  uint32_t pieces = 0;
  uint32_t long_rows = 0;
};

// Finds the rows longer than the plan's limit among `rows` rows (row_begin is [rows + 1]) and cuts them. `pieces` and
// `long_rows` have room for MaxPieces of the rows' entries.
PieceCount CutLongRows(const SumPlan& plan, const uint32_t* row_begin, uint32_t rows, Piece* pieces,
                       uint32_t* long_rows);

// What a thread of a narrow model does: entries entry, entry + stride, ... of its row, for one output.
struct NarrowSlot {
  uint32_t row;     // within the block's rows
  uint32_t entry;   // first entry of the thread
  uint32_t stride;  // to its next
  uint32_t output;  // may be beyond the model's outputs: such a thread only keeps step
};

// Rows of a block of a narrow model.
WIDELANE_HOST_DEVICE constexpr uint32_t RowsOfBlock(const SumPlan& plan) {
  return kBlockThreads >> plan.row_threads_log2;
}

// When a block holds RowsOfBlock rows.
WIDELANE_HOST_DEVICE constexpr NarrowSlot SlotInRow(const SumPlan& plan, uint32_t thread) {
  const uint32_t lane = thread & ((1U << plan.row_threads_log2) - 1);
  return {thread >> plan.row_threads_log2, lane >> plan.output_lanes_log2,
          1U << (plan.row_threads_log2 - plan.output_lanes_log2), lane & ((1U << plan.output_lanes_log2) - 1)};
}

// When the whole block works on one piece.
WIDELANE_HOST_DEVICE constexpr NarrowSlot SlotInPiece(const SumPlan& plan, uint32_t thread) {
  return {0, thread >> plan.output_lanes_log2, kBlockThreads >> plan.output_lanes_log2,
          thread & ((1U << plan.output_lanes_log2) - 1)};
}

// Threads of a row where shares are normalised over outputs: a power of two up to a warp, or kBlockThreads.
uint32_t NormaliseRowThreads(uint32_t outputs);
uint32_t NormaliseBlocks(uint32_t rows, uint32_t row_threads);

// Blocks of a kernel whose threads stride over `items` >= 1 of equal work.
uint32_t StrideBlocks(uint64_t items);

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_LAUNCH_PLAN_H_
