// The arithmetic by which the CUDA kernels are laid out; needs no GPU.

#include "cuda/launch_plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace widelane::cuda {
namespace {

constexpr uint32_t kMaxOutputs = (1U << 24) - 1;

std::vector<uint32_t> RowBegin(const std::vector<uint32_t>& lengths, uint32_t first) {
  std::vector<uint32_t> begin = {first};
  for (const uint32_t length : lengths) begin.push_back(begin.back() + length);
  return begin;
}

// How often each (entry, output) of a row of `length` is summed by the slots of `threads` threads.
std::map<std::pair<uint32_t, uint32_t>, int> Visits(const std::vector<NarrowSlot>& slots, uint32_t length,
                                                    uint32_t outputs) {
  std::map<std::pair<uint32_t, uint32_t>, int> visits;
  for (const NarrowSlot& slot : slots) {
    if (slot.output >= outputs) continue;
    for (uint32_t i = slot.entry; i < length; i += slot.stride) ++visits[{i, slot.output}];
  }
  return visits;
}

void ExpectEachOnce(const std::vector<NarrowSlot>& slots, uint32_t length, uint32_t outputs) {
  const auto visits = Visits(slots, length, outputs);
  EXPECT_EQ(visits.size(), size_t{length} * outputs);
  for (const auto& [place, count] : visits) EXPECT_EQ(count, 1) << place.first << ", " << place.second;
}

TEST(LaunchPlanTest, NarrowRowsAreSummedOncePerEntryAndOutput) {
  for (uint32_t outputs = 1; outputs <= kMaxNarrowOutputs; ++outputs) {
    SCOPED_TRACE(outputs);
    const SumPlan plan = PlanSums(outputs);
    ASSERT_FALSE(plan.wide);
    std::vector<std::vector<NarrowSlot>> rows(RowsOfBlock(plan));
    for (uint32_t thread = 0; thread < plan.block_threads; ++thread) {
      const NarrowSlot slot = SlotInRow(plan, thread);
      ASSERT_LT(slot.row, rows.size());
      rows[slot.row].push_back(slot);
    }
    for (const auto& row : rows) {
      for (const uint32_t length : {0U, 1U, 40U, plan.row_limit}) ExpectEachOnce(row, length, outputs);
    }
  }
}

TEST(LaunchPlanTest, LanesOfOneOutputExchangeWithinTheirRow) {
  for (uint32_t outputs = 1; outputs <= kMaxNarrowOutputs; ++outputs) {
    const SumPlan plan = PlanSums(outputs);
    const uint32_t lanes = 1U << plan.row_threads_log2;
    ASSERT_EQ(kWarp % lanes, 0U);
    for (uint32_t thread = 0; thread < plan.block_threads; ++thread) {
      for (uint32_t offset = lanes / 2; offset >> plan.output_lanes_log2 != 0; offset /= 2) {
        EXPECT_EQ(SlotInRow(plan, thread).row, SlotInRow(plan, thread ^ offset).row);
        EXPECT_EQ(SlotInRow(plan, thread).output, SlotInRow(plan, thread ^ offset).output);
      }
    }
  }
}

TEST(LaunchPlanTest, PiecesAreSummedOncePerEntryAndOutput) {
  for (uint32_t outputs = 1; outputs <= kMaxNarrowOutputs; ++outputs) {
    SCOPED_TRACE(outputs);
    const SumPlan plan = PlanSums(outputs);
    std::vector<NarrowSlot> slots;
    for (uint32_t thread = 0; thread < plan.block_threads; ++thread) {
      slots.push_back(SlotInPiece(plan, thread));
      // A warp's lanes keep their place among the outputs, which is how warps are added up.
      EXPECT_EQ(slots.back().output, thread % kWarp % (1U << plan.output_lanes_log2));
    }
    ExpectEachOnce(slots, plan.piece_entries - 1, outputs);
  }
}

TEST(LaunchPlanTest, TilesCoverTheOutputsOfWideModels) {
  for (const uint32_t outputs : {33U, 64U, 65U, 511U, 512U, 513U, 600U, 1000U, 10000U, kMaxOutputs}) {
    SCOPED_TRACE(outputs);
    const SumPlan plan = PlanSums(outputs);
    ASSERT_TRUE(plan.wide);
    EXPECT_EQ(plan.block_threads % kWarp, 0U);
    EXPECT_LE(plan.block_threads, kBlockThreads);
    EXPECT_EQ(plan.tile, plan.block_threads * kOutputsPerThread);
    GridSize grid;
    ASSERT_TRUE(SumGrid(plan, 7, outputs, 3, grid));
    EXPECT_EQ(grid.x, 10U);
    EXPECT_GE(uint64_t{grid.y} * plan.tile, outputs);
    EXPECT_LT(uint64_t{grid.y - 1} * plan.tile, outputs);
  }
}

TEST(LaunchPlanTest, NarrowGridsHaveABlockForEachPieceAndEachGroupOfRows) {
  GridSize grid;
  ASSERT_TRUE(SumGrid(PlanSums(1), 1, 1, 0, grid));
  EXPECT_EQ(grid.x, 1U);
  ASSERT_TRUE(SumGrid(PlanSums(1), 17, 1, 5, grid));
  EXPECT_EQ(grid.x, 7U);
  ASSERT_TRUE(SumGrid(PlanSums(3), 17, 3, 5, grid));
  EXPECT_EQ(grid.x, 8U);
  EXPECT_EQ(grid.y, 1U);
}

TEST(LaunchPlanTest, RefusesGridsOfNothing) {
  GridSize grid;
  EXPECT_FALSE(SumGrid(PlanSums(1), 0, 1, 0, grid));
  EXPECT_FALSE(SumGrid(PlanSums(100), 0, 100, 0, grid));
}

TEST(LaunchPlanTest, RefusesGridsBeyondALaunch) {
  GridSize grid;
  EXPECT_FALSE(SumGrid(PlanSums(100), 0x80000000U, 100, 0, grid));
  EXPECT_TRUE(SumGrid(PlanSums(1), 0xFFFFFFFFU, 1, 1 << 24, grid));
}

TEST(LaunchPlanTest, ShortRowsAreNotCut) {
  const SumPlan plan = PlanSums(1);
  const std::vector<uint32_t> begin = RowBegin({0, 3, plan.row_limit, 0}, 5);
  const PieceCount count = CutLongRows(plan, begin.data(), 4, nullptr, nullptr);
  EXPECT_EQ(count.pieces, 0U);
  EXPECT_EQ(count.long_rows, 0U);
  EXPECT_EQ(CutLongRows(plan, begin.data(), 0, nullptr, nullptr).pieces, 0U);
}

// Cuts `lengths` and checks that the pieces cover the long rows, in order and without a gap.
void ExpectCut(const SumPlan& plan, const std::vector<uint32_t>& lengths) {
  const std::vector<uint32_t> begin = RowBegin(lengths, 11);
  const size_t room = MaxPieces(begin.back() - begin.front());
  std::vector<Piece> pieces(room);
  std::vector<uint32_t> long_rows(room);
  const auto rows = static_cast<uint32_t>(lengths.size());
  const PieceCount count = CutLongRows(plan, begin.data(), rows, pieces.data(), long_rows.data());
  ASSERT_LE(count.pieces, room);
  uint32_t next = 0;
  uint32_t long_row = 0;
  for (uint32_t r = 0; r < rows; ++r) {
    if (lengths[r] <= plan.row_limit) continue;
    ASSERT_LT(long_row, count.long_rows);
    EXPECT_EQ(long_rows[long_row], r);
    uint32_t at = begin[r] - begin[0];
    for (; at < begin[r + 1] - begin[0]; ++next) {
      ASSERT_LT(next, count.pieces);
      const Piece& piece = pieces[next];
      EXPECT_EQ(piece.row, r);
      EXPECT_EQ(piece.long_row, long_row);
      EXPECT_EQ(piece.begin, at);
      ASSERT_GT(piece.length, 0U);
      EXPECT_LE(piece.length, plan.piece_entries);
      at += piece.length;
    }
    EXPECT_EQ(at, begin[r + 1] - begin[0]);
    ++long_row;
  }
  EXPECT_EQ(next, count.pieces);
  EXPECT_EQ(long_row, count.long_rows);
}

TEST(LaunchPlanTest, LongRowsAreCutWithoutGapAndFitTheRoom) {
  std::mt19937 random(1);
  for (const uint32_t outputs : {1U, 2U, 5U, 17U, 32U, 33U, 1000U}) {
    SCOPED_TRACE(outputs);
    const SumPlan plan = PlanSums(outputs);
    EXPECT_GE(plan.row_limit, kLeastRowLimit);
    const uint32_t limit = plan.row_limit;
    ExpectCut(plan, {10, 1000000, 0, 10});
    ExpectCut(plan, {(1U << 24) - 1});
    // The lengths at which the room is tightest.
    for (const uint32_t length : {limit + 1, 2 * limit, 2 * limit + 1, 4 * limit + 1}) {
      ExpectCut(plan, std::vector<uint32_t>(100, length));
    }
    std::vector<uint32_t> lengths(1000);
    for (uint32_t& length : lengths) length = static_cast<uint32_t>(random() % (uint64_t{5} * limit));
    ExpectCut(plan, lengths);
  }
}

TEST(LaunchPlanTest, NormalisingThreadsAreAPowerOfTwoOrABlock) {
  EXPECT_EQ(NormaliseRowThreads(2), 2U);
  EXPECT_EQ(NormaliseRowThreads(3), 4U);
  EXPECT_EQ(NormaliseRowThreads(32), 32U);
  EXPECT_EQ(NormaliseRowThreads(33), 32U);
  EXPECT_EQ(NormaliseRowThreads(kMaxOutputs), kBlockThreads);
  EXPECT_EQ(NormaliseBlocks(1, 2), 1U);
  EXPECT_EQ(NormaliseBlocks(129, 2), 2U);
  EXPECT_EQ(NormaliseBlocks(9, kBlockThreads), 9U);
}

TEST(LaunchPlanTest, StridedKernelsHaveAtLeastOneBlockAndAreBounded) {
  EXPECT_EQ(StrideBlocks(1), 1U);
  EXPECT_EQ(StrideBlocks(257), 2U);
  EXPECT_LE(StrideBlocks(uint64_t{1} << 32), 4096U);
}

}  // namespace
}  // namespace widelane::cuda
