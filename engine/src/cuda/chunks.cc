#include "cuda/chunks.h"

#include <algorithm>

namespace widelane::cuda {
namespace {

// A kernel reads entries some ten times as fast as the bus brings them (README.md), so each chunk's kernel is done
// before the next chunk is there even if that has only an eighth of its entries; with a sixteenth it is not.
constexpr uint32_t kFall = 8;

uint32_t WantedEntries(uint32_t left, const ChunkLimits& limits) {
  const uint32_t rest = std::max(limits.last_entries, left / kFall);
  return std::min(limits.entries, left > 2 * uint64_t{rest} ? left - rest : left);
}

template <typename T>
void Advance(T*& array, size_t elements) {
  if (array != nullptr) array += elements;
}

}  // namespace

Chunk NextChunk(const BatchView& batch, uint32_t row, uint32_t end, const ChunkLimits& limits) {
  const uint32_t* begin = batch.row_begin;
  const uint32_t wanted = WantedEntries(begin[end] - begin[row], limits);
  // The most steps of rows whose entries are no more than wanted, but one at least.
  const uint32_t steps_left = (end - row - 1) / limits.row_step + 1;
  uint32_t low = 1;
  uint32_t high = std::min(steps_left, std::max(1U, limits.rows / limits.row_step));
  const auto end_of = [&](uint32_t steps) {
    return static_cast<uint32_t>(std::min<uint64_t>(end, row + uint64_t{steps} * limits.row_step));
  };
  while (low < high) {
    const uint32_t middle = low + (high - low + 1) / 2;
    if (begin[end_of(middle)] - begin[row] <= wanted) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  Chunk chunk;
  chunk.first_row = row;
  chunk.rows = end_of(low) - row;
  chunk.first_entry = begin[row] / kEntryAlignment * kEntryAlignment;
  chunk.entries = begin[row + chunk.rows] - chunk.first_entry;
  return chunk;
}

BatchView FromRow(const BatchView& batch, uint32_t row, uint32_t outputs) {
  BatchView view = batch;
  Advance(view.row_begin, row);
  Advance(view.group_begin, row / kGroupRows);
  Advance(view.lengths8, row);
  Advance(view.lengths16, row);
  Advance(view.row_max, row);
  Advance(view.context_line, row);
  Advance(view.scores, size_t{row} * outputs);
  Advance(view.raw, size_t{row} * outputs);
  Advance(view.best_outputs, size_t{row} * batch.best);
  Advance(view.best_scores, size_t{row} * batch.best);
  if (row % kGroupRows != 0) {
    view.group_begin = nullptr;
    view.lengths8 = nullptr;
    view.lengths16 = nullptr;
  }
  return view;
}

std::vector<uint64_t> CutFeatures(uint64_t features, const std::vector<uint64_t>& parts) {
  double total = 0;
  for (const uint64_t part : parts) total += static_cast<double>(part);
  std::vector<uint64_t> bounds = {0};
  double before = 0;
  for (const uint64_t part : parts) {
    before += static_cast<double>(part);
    bounds.push_back(static_cast<uint64_t>(static_cast<double>(features) * (before / total)));
  }
  bounds.back() = features;
  return bounds;
}

}  // namespace widelane::cuda
