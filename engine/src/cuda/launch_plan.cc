#include "cuda/launch_plan.h"

#include <algorithm>
#include <bit>

namespace widelane::cuda {
namespace {

// Entries that one lane of a narrow model may walk before a row is cut: bounds how long a warp can outlast the others.
constexpr uint32_t kWalk = 64;
constexpr uint32_t kGreatestRowLimit = 1024;

// Warps that a multiprocessor should have for memory's latency to be hidden.
constexpr uint32_t kWantedWarps = 16;

// Entries above which it pays that every multiprocessor first copies all weights to its shared memory.
constexpr uint32_t kSharedLeastEntries = 4'000'000;
constexpr uint32_t kSharedThreads = 1024;

// Below this mean length 4 lanes a row waste less than 8; above the other a whole warp has enough to do.
constexpr uint32_t kMeanFor8Lanes = 17;
constexpr uint32_t kMeanForWarp = 97;

// A strided kernel has no use for more blocks than fill any GPU a few times.
constexpr uint32_t kMaxStrideBlocks = 4096;

// Up to this many outputs a warp normalises a row, above it a block.
constexpr uint32_t kMaxWarpNormalise = 1024;

constexpr uint32_t CeilDivide(uint64_t a, uint64_t b) { return static_cast<uint32_t>((a + b - 1) / b); }

constexpr uint32_t RoundUp(uint32_t n, uint32_t multiple) { return CeilDivide(n, multiple) * multiple; }

// The least k with 2^k >= n.
constexpr uint32_t CeilLog2(uint32_t n) { return static_cast<uint32_t>(std::bit_width(n - 1)); }

// Rows of a warp: as few as it takes to occupy the GPU.
uint32_t WarpRows(const SumShape& shape) {
  const uint64_t warps = uint64_t{shape.multiprocessors} * kWantedWarps;
  return std::min(std::bit_floor(static_cast<uint32_t>(shape.rows / warps) | 1U), kWarp);
}

uint32_t BlocksOfWarps(uint32_t rows, uint32_t warp_rows) {
  const uint32_t warps = CeilDivide(rows, kWarp) * (kWarp / warp_rows);
  return CeilDivide(warps, kBlockThreads / kWarp);
}

SumPlan PlanShared(const SumShape& shape) {
  SumPlan plan;
  plan.kind = SumKind::kShared;
  plan.block_threads = kSharedThreads;
  plan.blocks = std::min(shape.multiprocessors, CeilDivide(shape.rows, kSharedThreads));
  plan.shared_bytes = (shape.weight_bytes + 15) / 16 * 16;
  return plan;
}

SumPlan PlanOneOutput(const SumShape& shape) {
  if (shape.entries >= kSharedLeastEntries && (shape.weight_bytes + 15) / 16 * 16 <= shape.shared_bytes) {
    return PlanShared(shape);
  }
  SumPlan plan;
  const uint32_t mean = shape.entries / shape.rows;
  plan.warp_rows = WarpRows(shape);
  if (mean >= kMeanForWarp || plan.warp_rows < kWarp) {
    plan.kind = SumKind::kWarpRows;
  } else {
    plan.kind = mean >= kMeanFor8Lanes ? SumKind::kGroupsBy8 : SumKind::kGroupsBy4;
  }
  plan.blocks = BlocksOfWarps(shape.rows, plan.warp_rows);
  return plan;
}

SumPlan PlanNarrow(const SumShape& shape) {
  SumPlan plan;
  plan.kind = SumKind::kNarrow;
  plan.output_lanes_log2 = CeilLog2(shape.outputs);
  plan.warp_rows = WarpRows(shape);
  plan.blocks = BlocksOfWarps(shape.rows, plan.warp_rows);
  return plan;
}

// Outputs that one load brings where they lie side by side: 16 bytes at most.
uint32_t WidthOfLoad(const SumShape& shape, uint32_t thread_outputs) {
  return shape.weight_type == WeightType::kFloat32 ? std::min(thread_outputs, 4U) : thread_outputs;
}

// Outputs of a thread: as many as still fill a warp; few where sums are in double, which takes more registers.
void PlanThread(const SumShape& shape, SumPlan& plan) {
  uint32_t most = 2;
  if (shape.split) most = std::clamp(std::bit_floor(shape.outputs / kWarp), 2U, 8U);
  for (uint32_t outputs = most; shape.split && outputs >= 2; outputs /= 2) {
    if (shape.outputs % WidthOfLoad(shape, outputs) != 0) continue;
    plan.thread_outputs = outputs;
    plan.vector = true;
    return;
  }
  plan.thread_outputs = std::min(most, 4U);
}

// Tiles of equal width, so that no block is left with a few outputs only.
SumPlan PlanWide(const SumShape& shape) {
  SumPlan plan;
  plan.kind = SumKind::kWide;
  PlanThread(shape, plan);
  const uint32_t least_tiles = CeilDivide(shape.outputs, uint64_t{kBlockThreads} * plan.thread_outputs);
  const uint32_t threads = CeilDivide(CeilDivide(shape.outputs, least_tiles), plan.thread_outputs);
  plan.block_threads = RoundUp(threads, kWarp);
  // Whole threads only, so that a vector is never cut.
  plan.tile = threads * plan.thread_outputs;
  plan.tiles = CeilDivide(shape.outputs, plan.tile);
  plan.blocks = shape.rows;
  return plan;
}

// The compiler makes vector code of this; the batch that has no long row, the usual one, costs no more.
uint32_t LongestRow(const uint32_t* row_begin, uint32_t rows) {
  uint32_t longest = 0;
  for (uint32_t r = 0; r < rows; ++r) longest = std::max(longest, row_begin[r + 1] - row_begin[r]);
  return longest;
}

}  // namespace

uint32_t RowLimit(uint32_t outputs) {
  if (outputs > kMaxNarrowOutputs) return kLeastRowLimit;
  return std::clamp(kWalk * (kWarp >> CeilLog2(outputs)), kLeastRowLimit, kGreatestRowLimit);
}

SumPlan PlanSums(const SumShape& shape) {
  if (shape.outputs > kMaxNarrowOutputs) return PlanWide(shape);
  // Kernels of one output read an entry for a row that has none, so there must be some.
  const bool one_output = shape.outputs == 1 && shape.split && shape.entries > 0;
  return one_output ? PlanOneOutput(shape) : PlanNarrow(shape);
}

PieceCount CutLongRows(uint32_t outputs, const uint32_t* row_begin, uint32_t first_row, uint32_t rows,
                       uint32_t first_entry, Piece* pieces, uint32_t* long_rows) {
  PieceCount count;
  const uint32_t limit = RowLimit(outputs);
  if (LongestRow(row_begin + first_row, rows) <= limit) return count;
  // Twice the limit: a row of n > limit entries then has at most n / limit pieces, which is what MaxPieces counts on.
  const uint32_t piece_entries = 2 * limit;
  for (uint32_t r = first_row; r < first_row + rows; ++r) {
    const uint32_t entries = row_begin[r + 1] - row_begin[r];
    if (entries <= limit) continue;
    const uint32_t begin = row_begin[r] - first_entry;
    // `done` cannot pass 2^32: rows have fewer than 2^24 entries.
    for (uint32_t done = 0; done < entries; done += piece_entries) {
      pieces[count.pieces++] = {r, begin + done, std::min(piece_entries, entries - done)};
    }
    long_rows[count.long_rows++] = r;
  }
  return count;
}

uint32_t NormaliseRowThreads(uint32_t outputs) {
  if (outputs > kMaxWarpNormalise) return kBlockThreads;
  return std::min(1U << CeilLog2(outputs), kWarp);
}

uint32_t NormaliseBlocks(uint32_t rows, uint32_t row_threads) { return CeilDivide(rows, kBlockThreads / row_threads); }

uint32_t StrideBlocks(uint64_t items) {
  return static_cast<uint32_t>(std::min<uint64_t>((items + kBlockThreads - 1) / kBlockThreads, kMaxStrideBlocks));
}

uint32_t PickThreads(uint64_t items) {
  const uint64_t threads = (items + kPickItems - 1) / kPickItems;
  return RoundUp(static_cast<uint32_t>(std::clamp<uint64_t>(threads, 1, kBlockThreads)), kWarp);
}

ScratchPlan PlanScratch(const ScratchShape& shape) {
  const size_t sum_bytes = shape.sums ? size_t{shape.outputs} * 8 : 0;
  const size_t row_bytes = sum_bytes + shape.candidates * kCandidateBytes;
  ScratchPlan plan;
  plan.rows = shape.rows;
  if (row_bytes == 0) return plan;
  // Sums end at a multiple of 16, where candidates may begin.
  const size_t room = shape.bytes < 16 ? 0 : (shape.bytes - 16) / row_bytes;
  if (room < plan.rows) {
    const uint32_t multiple = shape.outputs > kMaxNarrowOutputs ? 1 : kWarp;
    plan.rows = static_cast<uint32_t>(room) / multiple * multiple;
  }
  plan.candidates_offset = (plan.rows * sum_bytes + 15) / 16 * 16;
  return plan;
}

}  // namespace widelane::cuda
