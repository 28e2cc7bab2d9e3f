#include "cuda/launch_plan.h"

#include <algorithm>
#include <bit>

namespace widelane::cuda {
namespace {

// Limits of a launch on every architecture.
constexpr uint64_t kMaxGridX = 0x7FFFFFFF;
constexpr uint64_t kMaxGridY = 0xFFFF;

// Entries that one thread may walk before a row is cut: bounds how long a block can outlast the others.
constexpr uint32_t kWalk = 64;
constexpr uint32_t kGreatestRowLimit = 1024;

// A strided kernel has no use for more blocks than fill any GPU a few times.
constexpr uint32_t kMaxStrideBlocks = 4096;

// Up to this many outputs a warp normalises a row, above it a block.
constexpr uint32_t kMaxWarpNormalise = 1024;

constexpr uint32_t CeilDivide(uint64_t a, uint64_t b) { return static_cast<uint32_t>((a + b - 1) / b); }

// The least k with 2^k >= n.
constexpr uint32_t CeilLog2(uint32_t n) { return static_cast<uint32_t>(std::bit_width(n - 1)); }

SumPlan PlanNarrow(uint32_t outputs) {
  SumPlan plan;
  plan.output_lanes_log2 = CeilLog2(outputs);
  plan.row_threads_log2 = CeilLog2(outputs == 1 ? kMinRowThreads : kWarp);
  plan.block_threads = kBlockThreads;
  const uint32_t entry_lanes = SlotInRow(plan, 0).stride;
  plan.row_limit = std::clamp(kWalk * entry_lanes, kLeastRowLimit, kGreatestRowLimit);
  return plan;
}

// Tiles of equal width, so that no block is left with a few outputs only.
SumPlan PlanWide(uint32_t outputs) {
  SumPlan plan;
  plan.wide = true;
  const uint32_t tiles = CeilDivide(outputs, uint64_t{kBlockThreads} * kOutputsPerThread);
  const uint32_t threads = CeilDivide(CeilDivide(outputs, tiles), kOutputsPerThread);
  plan.block_threads = CeilDivide(threads, kWarp) * kWarp;
  plan.tile = plan.block_threads * kOutputsPerThread;
  plan.row_limit = kLeastRowLimit;
  return plan;
}

// The compiler makes vector code of this; the batch that has no long row, the usual one, costs no more.
uint32_t LongestRow(const uint32_t* row_begin, uint32_t rows) {
  uint32_t longest = 0;
  for (uint32_t r = 0; r < rows; ++r) longest = std::max(longest, row_begin[r + 1] - row_begin[r]);
  return longest;
}

}  // namespace

SumPlan PlanSums(uint32_t outputs) {
  SumPlan plan = outputs <= kMaxNarrowOutputs ? PlanNarrow(outputs) : PlanWide(outputs);
  // Twice the limit: a row of n > limit entries then has at most n / limit pieces, which is what MaxPieces counts on.
  plan.piece_entries = 2 * plan.row_limit;
  return plan;
}

// Narrow: rows are below 2^32 and 8 or more to a block. Wide: rows * outputs is below 2^32 and outputs above 32, so
// rows are below 2^27; pieces are at most 2^24 + 1; outputs are below 2^24 and tiles wider than 256 where there are
// several.
bool SumGrid(const SumPlan& plan, uint32_t rows, uint32_t outputs, uint32_t pieces, GridSize& grid) {
  const uint64_t row_blocks = plan.wide ? rows : CeilDivide(rows, RowsOfBlock(plan));
  const uint64_t x = row_blocks + pieces;
  const uint64_t y = plan.wide ? CeilDivide(outputs, plan.tile) : 1;
  if (x == 0 || x > kMaxGridX || y == 0 || y > kMaxGridY) return false;
  grid = {static_cast<uint32_t>(x), static_cast<uint32_t>(y)};
  return true;
}

PieceCount CutLongRows(const SumPlan& plan, const uint32_t* row_begin, uint32_t rows, Piece* pieces,
                       uint32_t* long_rows) {
  PieceCount count;
  if (LongestRow(row_begin, rows) <= plan.row_limit) return count;
  for (uint32_t r = 0; r < rows; ++r) {
    const uint32_t entries = row_begin[r + 1] - row_begin[r];
    if (entries <= plan.row_limit) continue;
    const uint32_t begin = row_begin[r] - row_begin[0];
    // `done` cannot pass 2^32: rows have fewer than 2^24 entries.
    for (uint32_t done = 0; done < entries; done += plan.piece_entries) {
      pieces[count.pieces++] = {r, begin + done, std::min(plan.piece_entries, entries - done), count.long_rows};
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

uint32_t StrideBlocks(uint64_t items) { return std::min(CeilDivide(items, kBlockThreads), kMaxStrideBlocks); }

}  // namespace widelane::cuda
