// The arithmetic by which the CUDA kernels are laid out; needs no GPU.

#include "cuda/launch_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "numeric.h"
#include "widelane/engine/batch_view.h"
#include "widelane/engine/route.h"

namespace widelane::cuda {
namespace {

constexpr uint32_t kMaxOutputs = (1U << 24) - 1;
// Of an H200.
constexpr uint32_t kMultiprocessors = 132;
constexpr size_t kSharedBytes = 227 << 10;

SumShape Shape(uint32_t outputs, uint32_t rows = 1000, uint32_t entries = 40000) {
  return {.outputs = outputs,
          .rows = rows,
          .entries = entries,
          .weight_bytes = uint64_t{54001} * outputs * 4,
          .multiprocessors = kMultiprocessors,
          .shared_bytes = kSharedBytes};
}

std::vector<uint32_t> RowBeginFrom(const std::vector<uint32_t>& lengths, uint32_t first) {
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

TEST(LaunchPlanTest, NarrowRowsAndPiecesAreSummedOncePerEntryAndOutput) {
  for (uint32_t outputs = 1; outputs <= kMaxNarrowOutputs; ++outputs) {
    SCOPED_TRACE(outputs);
    SumShape shape = Shape(outputs);
    shape.split = false;
    const SumPlan plan = PlanSums(shape);
    ASSERT_EQ(plan.kind, SumKind::kNarrow);
    for (const uint32_t threads : {kWarp, kBlockThreads}) {
      std::vector<NarrowSlot> slots;
      for (uint32_t thread = 0; thread < threads; ++thread) {
        slots.push_back(SlotOf(plan.output_lanes_log2, threads, thread));
        // A warp's lanes keep their place among the outputs, which is how lanes and warps are added up.
        EXPECT_EQ(slots.back().output, thread % kWarp % (1U << plan.output_lanes_log2));
      }
      for (const uint32_t length : {0U, 1U, 40U, RowLimit(outputs)}) ExpectEachOnce(slots, length, outputs);
    }
  }
}

// Lanes fill up their last batch of four with zeros, which count as terms as well.
TEST(LaunchPlanTest, NoThreadAddsUpMoreTermsThanMayBeSplit) {
  for (uint32_t outputs = 1; outputs <= kMaxNarrowOutputs; ++outputs) {
    const uint32_t log2 = PlanSums(Shape(outputs)).output_lanes_log2;
    EXPECT_LE(RowLimit(outputs) / SlotOf(log2, kWarp, 0).stride + 4, numeric::kMaxSplitTerms);
    EXPECT_LE(2 * RowLimit(outputs) / SlotOf(log2, kBlockThreads, 0).stride + 4, numeric::kMaxSplitTerms);
  }
  EXPECT_LE(2 * RowLimit(kMaxNarrowOutputs + 1), numeric::kMaxSplitTerms);
}

TEST(LaunchPlanTest, TilesCoverTheOutputsOfWideModels) {
  for (const WeightType type : {WeightType::kFloat32, WeightType::kFloat16, WeightType::kBfloat16, WeightType::kInt8}) {
    for (const uint32_t outputs :
         {33U, 64U, 65U, 511U, 512U, 513U, 600U, 1000U, 2049U, 10000U, 2000001U, kMaxOutputs}) {
      SCOPED_TRACE(outputs);
      SumShape shape = Shape(outputs, 7);
      shape.weight_type = type;
      const SumPlan plan = PlanSums(shape);
      ASSERT_EQ(plan.kind, SumKind::kWide);
      EXPECT_EQ(plan.blocks, 7U);
      EXPECT_EQ(plan.block_threads % kWarp, 0U);
      EXPECT_LE(plan.block_threads, kBlockThreads);
      EXPECT_EQ(plan.tile % plan.thread_outputs, 0U);
      EXPECT_LE(plan.tile, plan.block_threads * plan.thread_outputs);
      EXPECT_GE(uint64_t{plan.tiles} * plan.tile, outputs);
      EXPECT_LT(uint64_t{plan.tiles - 1} * plan.tile, outputs);
      EXPECT_LE(plan.tiles, 65535U);  // a launch's limit
      // No vector is cut by the end of the outputs.
      if (plan.vector) {
        const uint32_t width = type == WeightType::kFloat32 ? std::min(plan.thread_outputs, 4U) : plan.thread_outputs;
        EXPECT_EQ(outputs % width, 0U);
      }
    }
  }
}

TEST(LaunchPlanTest, AThreadHasAsManyOutputsAsStillFillAWarp) {
  EXPECT_EQ(PlanSums(Shape(64)).thread_outputs, 2U);
  EXPECT_EQ(PlanSums(Shape(128)).thread_outputs, 4U);
  EXPECT_EQ(PlanSums(Shape(1000)).thread_outputs, 8U);
  EXPECT_EQ(PlanSums(Shape(1000)).block_threads, 128U);
  SumShape shape = Shape(1000);
  shape.split = false;
  EXPECT_EQ(PlanSums(shape).thread_outputs, 2U);
}

TEST(LaunchPlanTest, LoadsAreAsWideAsTheOutputsDivide) {
  SumShape shape = Shape(1004);  // two loads of 4
  EXPECT_TRUE(PlanSums(shape).vector);
  EXPECT_EQ(PlanSums(shape).thread_outputs, 8U);
  shape.weight_type = WeightType::kFloat16;  // one of 4
  EXPECT_TRUE(PlanSums(shape).vector);
  EXPECT_EQ(PlanSums(shape).thread_outputs, 4U);
  shape.outputs = 1002;
  EXPECT_EQ(PlanSums(shape).thread_outputs, 2U);
  shape.outputs = 1001;
  EXPECT_FALSE(PlanSums(shape).vector);
  EXPECT_EQ(PlanSums(shape).thread_outputs, 4U);
}

uint64_t WarpsOf(const SumPlan& plan) { return uint64_t{plan.blocks} * (plan.block_threads / kWarp); }

TEST(LaunchPlanTest, EveryRowOfOneOutputHasAWarp) {
  for (const uint32_t rows : {1U, 31U, 33U, 1000U, 70000U, 200000U, 1U << 30}) {
    for (const uint32_t mean : {1U, 3U}) {
      SCOPED_TRACE(rows);
      const SumPlan plan = PlanSums(Shape(1, rows, rows * mean));
      const uint32_t warp_rows = plan.kind == SumKind::kWarpRows ? plan.warp_rows : kGroupRows;
      if (plan.kind != SumKind::kShared) {
        EXPECT_GE(WarpsOf(plan) * warp_rows, rows);
      }
    }
  }
}

TEST(LaunchPlanTest, FewRowsAreSpreadOverTheMultiprocessors) {
  EXPECT_EQ(PlanSums(Shape(1, 1000, 40000)).kind, SumKind::kWarpRows);
  EXPECT_EQ(PlanSums(Shape(1, 1000, 40000)).warp_rows, 1U);
  EXPECT_EQ(PlanSums(Shape(1, 10000, 400000)).warp_rows, 4U);
  EXPECT_EQ(PlanSums(Shape(7, 10000, 400000)).warp_rows, 4U);
}

TEST(LaunchPlanTest, LanesOfARowFollowItsMeanLength) {
  EXPECT_EQ(PlanSums(Shape(1, 100000, 1'100'000)).kind, SumKind::kGroupsBy4);
  SumShape shape = Shape(1, 100000, 4'000'000);
  shape.weight_bytes = 400'000'000;
  EXPECT_EQ(PlanSums(shape).kind, SumKind::kGroupsBy8);
  shape.entries = 20'000'000;
  EXPECT_EQ(PlanSums(shape).kind, SumKind::kWarpRows);
}

TEST(LaunchPlanTest, SharedMemoryIsForManyEntriesAndWeightsThatFit) {
  const SumPlan plan = PlanSums(Shape(1, 200000, 8'000'000));
  EXPECT_EQ(plan.kind, SumKind::kShared);
  EXPECT_EQ(plan.blocks, kMultiprocessors);
  EXPECT_GE(plan.shared_bytes, size_t{54001} * 4);
  EXPECT_EQ(plan.shared_bytes % 16, 0U);
  SumShape shape = Shape(1, 200000, 8'000'000);
  shape.weight_bytes = kSharedBytes + 1;
  EXPECT_NE(PlanSums(shape).kind, SumKind::kShared);
  EXPECT_NE(PlanSums(Shape(1, 50000, 2'000'000)).kind, SumKind::kShared);
}

TEST(LaunchPlanTest, ShortRowsAreNotCut) {
  const std::vector<uint32_t> begin = RowBeginFrom({0, 3, RowLimit(1), 0}, 5);
  const PieceCount count = CutLongRows(1, begin.data(), 0, 4, 5, nullptr, nullptr);
  EXPECT_EQ(count.pieces, 0U);
  EXPECT_EQ(count.long_rows, 0U);
  EXPECT_EQ(CutLongRows(1, begin.data(), 0, 0, 5, nullptr, nullptr).pieces, 0U);
}

// Cuts `lengths` but the first `first_row` and checks that the pieces cover the long rows, in order and without a gap.
void ExpectCut(uint32_t outputs, const std::vector<uint32_t>& lengths, uint32_t first_row = 0) {
  const std::vector<uint32_t> begin = RowBeginFrom(lengths, 11);
  const size_t room = MaxPieces(begin.back() - begin[first_row]);
  std::vector<Piece> pieces(room);
  std::vector<uint32_t> long_rows(room);
  const auto rows = static_cast<uint32_t>(lengths.size());
  const uint32_t first_entry = begin[first_row] - 3;
  const PieceCount count =
      CutLongRows(outputs, begin.data(), first_row, rows - first_row, first_entry, pieces.data(), long_rows.data());
  ASSERT_LE(count.pieces, room);
  uint32_t next = 0;
  uint32_t long_row = 0;
  for (uint32_t r = first_row; r < rows; ++r) {
    if (lengths[r] <= RowLimit(outputs)) continue;
    ASSERT_LT(long_row, count.long_rows);
    EXPECT_EQ(long_rows[long_row], r);
    uint32_t at = begin[r] - first_entry;
    for (; at < begin[r + 1] - first_entry; ++next) {
      ASSERT_LT(next, count.pieces);
      const Piece& piece = pieces[next];
      EXPECT_EQ(piece.row, r);
      EXPECT_EQ(piece.begin, at);
      ASSERT_GT(piece.length, 0U);
      EXPECT_LE(piece.length, 2 * RowLimit(outputs));
      at += piece.length;
    }
    EXPECT_EQ(at, begin[r + 1] - first_entry);
    ++long_row;
  }
  EXPECT_EQ(next, count.pieces);
  EXPECT_EQ(long_row, count.long_rows);
}

TEST(LaunchPlanTest, LongRowsAreCutWithoutGapAndFitTheRoom) {
  std::mt19937 random(1);
  for (const uint32_t outputs : {1U, 2U, 5U, 17U, 32U, 33U, 1000U}) {
    SCOPED_TRACE(outputs);
    const uint32_t limit = RowLimit(outputs);
    EXPECT_GE(limit, kLeastRowLimit);
    ExpectCut(outputs, {10, 1000000, 0, 10});
    ExpectCut(outputs, {2000, 5000, 10, 1000000, 0}, 2);
    ExpectCut(outputs, {(1U << 24) - 1});
    // The lengths at which the room is tightest.
    for (const uint32_t length : {limit + 1, 2 * limit, 2 * limit + 1, 4 * limit + 1}) {
      ExpectCut(outputs, std::vector<uint32_t>(100, length));
    }
    std::vector<uint32_t> lengths(1000);
    for (uint32_t& length : lengths) length = static_cast<uint32_t>(random() % (uint64_t{5} * limit));
    ExpectCut(outputs, lengths);
  }
}

TEST(LaunchPlanTest, WithoutNeedOfScratchAllRowsGoAtOnce) {
  EXPECT_EQ(PlanScratch({.outputs = 1000, .rows = 77, .bytes = 0}).rows, 77U);
}

TEST(LaunchPlanTest, ScratchForAllResultsTakesAllRowsAtOnce) {
  for (const uint32_t outputs : {1U, 2U, 32U, 33U, 1000U, 2000000U}) {
    const uint32_t rows = 1000;
    const size_t bytes = ScratchBytes(size_t{rows} * outputs);
    EXPECT_EQ(PlanScratch({.outputs = outputs, .rows = rows, .bytes = bytes, .sums = true}).rows, rows);
  }
}

// Whatever the model and how many of its best are wanted.
TEST(LaunchPlanTest, ScratchForOneRowIsEnoughForSteps) {
  for (const uint32_t outputs : {1U, 3U, 32U, 33U, 600U, 1026U, 10000U, 2000001U, kMaxOutputs}) {
    for (const bool split : {false, true}) {
      SCOPED_TRACE(outputs);
      SumShape shape = Shape(outputs);
      shape.split = split;
      const SumPlan sums = PlanSums(shape);
      const size_t candidates = sums.tiles > 1 ? size_t{sums.tiles} * kMaxBest : 0;
      const size_t bytes = ScratchBytes(outputs);
      const ScratchPlan plan =
          PlanScratch({.outputs = outputs, .rows = 1U << 20, .bytes = bytes, .sums = true, .candidates = candidates});
      ASSERT_GT(plan.rows, 0U);
      if (outputs <= kMaxNarrowOutputs) {
        EXPECT_EQ(plan.rows % kGroupRows, 0U);
      }
      EXPECT_GE(plan.candidates_offset, size_t{plan.rows} * outputs * 8);
      EXPECT_EQ(plan.candidates_offset % 16, 0U);
      EXPECT_LE(plan.candidates_offset + plan.rows * candidates * kCandidateBytes, bytes);
    }
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

TEST(LaunchPlanTest, AsManyThreadsPickAsThereIsWork) {
  EXPECT_EQ(PickThreads(1), kWarp);
  EXPECT_EQ(PickThreads(kWarp * kPickItems), kWarp);
  EXPECT_EQ(PickThreads(kWarp * kPickItems + 1), 2 * kWarp);
  EXPECT_EQ(PickThreads(uint64_t{1} << 40), kBlockThreads);
}

}  // namespace
}  // namespace widelane::cuda
