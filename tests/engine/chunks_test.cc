#include "cuda/chunks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "widelane/engine/batch_view.h"

namespace widelane::cuda {
namespace {

std::vector<uint32_t> RowBegin(const std::vector<uint32_t>& lengths, uint32_t first_entry = 0) {
  std::vector<uint32_t> begin = {first_entry};
  for (const uint32_t length : lengths) begin.push_back(begin.back() + length);
  return begin;
}

BatchView Batch(const std::vector<uint32_t>& row_begin) {
  BatchView batch;
  batch.rows = static_cast<uint32_t>(row_begin.size() - 1);
  batch.row_begin = row_begin.data();
  return batch;
}

std::vector<Chunk> Cut(const BatchView& batch, uint32_t row, uint32_t end, const ChunkLimits& limits) {
  std::vector<Chunk> chunks;
  while (row < end) {
    chunks.push_back(NextChunk(batch, row, end, limits));
    row += chunks.back().rows;
  }
  return chunks;
}

// Each chunk is within limits unless it is a single step, holds its rows' entries, and follows the one before.
void ExpectSound(const BatchView& batch, uint32_t row, uint32_t end, const ChunkLimits& limits) {
  for (const Chunk& chunk : Cut(batch, row, end, limits)) {
    ASSERT_EQ(chunk.first_row, row);
    ASSERT_GT(chunk.rows, 0U);
    row += chunk.rows;
    ASSERT_LE(row, end);
    ASSERT_TRUE(row == end || chunk.rows % limits.row_step == 0);
    const uint32_t begin = batch.row_begin[chunk.first_row];
    const uint32_t last = batch.row_begin[row];
    ASSERT_EQ(chunk.first_entry % kEntryAlignment, 0U);
    ASSERT_LE(chunk.first_entry, begin);
    ASSERT_LT(begin - chunk.first_entry, kEntryAlignment);
    ASSERT_EQ(chunk.first_entry + chunk.entries, last);
    if (chunk.rows > limits.row_step) {
      ASSERT_LE(last - begin, limits.entries);
      ASSERT_LE(chunk.rows, limits.rows);
    }
  }
  EXPECT_EQ(row, end);
}

TEST(NextChunk, FollowsTheLimits) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<uint32_t> lengths(1 + random() % 400);
    for (uint32_t& length : lengths)
      length = static_cast<uint32_t>(random() % 20 == 0 ? random() % 3000 : random() % 50);
    const std::vector<uint32_t> row_begin = RowBegin(lengths, static_cast<uint32_t>(random() % 1000));
    ChunkLimits limits;
    limits.entries = static_cast<uint32_t>(1 + random() % 10000);
    limits.rows = static_cast<uint32_t>(random() % 200);
    limits.row_step = random() % 3 == 0 ? 1 : kGroupRows;
    limits.last_entries = static_cast<uint32_t>(random() % 5000);
    const auto rows = static_cast<uint32_t>(lengths.size());
    ExpectSound(Batch(row_begin), 0, rows, limits);
    ExpectSound(Batch(row_begin), rows / 2 / kGroupRows * kGroupRows, rows, limits);
  }
}

TEST(NextChunk, LeavesASmallEndOfALargePiece) {
  const std::vector<uint32_t> row_begin = RowBegin(std::vector<uint32_t>(200'000, 40));
  const ChunkLimits limits = {.entries = 8'000'000, .rows = 1 << 30, .row_step = kGroupRows, .last_entries = 1 << 19};
  const std::vector<Chunk> chunks = Cut(Batch(row_begin), 0, 200'000, limits);
  EXPECT_LE(chunks.size(), 3U);
  EXPECT_GE(chunks.back().entries, limits.last_entries);
  EXPECT_LE(chunks.back().entries, 2 * limits.last_entries);
}

TEST(NextChunk, TakesASmallPieceWhole) {
  const std::vector<uint32_t> row_begin = RowBegin(std::vector<uint32_t>(10'000, 40));
  const ChunkLimits limits = {.entries = 8'000'000, .rows = 1 << 30, .row_step = kGroupRows, .last_entries = 1 << 19};
  EXPECT_EQ(Cut(Batch(row_begin), 0, 10'000, limits).size(), 1U);
}

TEST(NextChunk, TakesEmptyRows) {
  const std::vector<uint32_t> row_begin = RowBegin(std::vector<uint32_t>(1000, 0));
  const ChunkLimits limits = {.entries = 10, .rows = 64, .row_step = kGroupRows, .last_entries = 1};
  ExpectSound(Batch(row_begin), 0, 1000, limits);
}

TEST(FromRow, MovesEveryArrayThatIsThere) {
  const std::vector<uint32_t> row_begin(200);
  const std::vector<uint32_t> group_begin(10);
  const std::vector<uint8_t> lengths(200);
  const std::vector<int64_t> context_sums(20);
  const std::vector<uint16_t> context_line(200);
  std::vector<float> scores(1000);
  std::vector<uint32_t> best(1000);
  BatchView batch = Batch(row_begin);
  batch.group_begin = group_begin.data();
  batch.lengths8 = lengths.data();
  batch.context_sums = context_sums.data();
  batch.context_line = context_line.data();
  batch.scores = scores.data();
  batch.best = 2;
  batch.best_outputs = best.data();
  const BatchView group = FromRow(batch, 64, 5);
  EXPECT_EQ(group.row_begin, row_begin.data() + 64);
  EXPECT_EQ(group.group_begin, group_begin.data() + 2);
  EXPECT_EQ(group.lengths8, lengths.data() + 64);
  EXPECT_EQ(group.lengths16, nullptr);
  EXPECT_EQ(group.context_sums, context_sums.data());
  EXPECT_EQ(group.context_line, context_line.data() + 64);
  EXPECT_EQ(group.scores, scores.data() + 64 * 5);
  EXPECT_EQ(group.best_outputs, best.data() + 64 * 2);
  EXPECT_EQ(group.raw, nullptr);
  const BatchView row = FromRow(batch, 65, 5);
  EXPECT_EQ(row.row_begin, row_begin.data() + 65);
  EXPECT_EQ(row.group_begin, nullptr);
  EXPECT_EQ(row.lengths8, nullptr);
  EXPECT_EQ(row.context_line, context_line.data() + 65);
}

TEST(CutFeatures, FollowsTheParts) {
  EXPECT_EQ(CutFeatures(100, {1, 1}), (std::vector<uint64_t>{0, 50, 100}));
  EXPECT_EQ(CutFeatures(100, {3, 1}), (std::vector<uint64_t>{0, 75, 100}));
  EXPECT_EQ(CutFeatures(100, {0, 5, 0}), (std::vector<uint64_t>{0, 0, 100, 100}));
  EXPECT_EQ(CutFeatures(1, {7, 7}), (std::vector<uint64_t>{0, 0, 1}));
  EXPECT_EQ(CutFeatures(0xFFFFFFFE, {uint64_t{140} << 30, uint64_t{140} << 30}).back(), 0xFFFFFFFEU);
}

}  // namespace
}  // namespace widelane::cuda
