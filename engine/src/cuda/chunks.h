// Cutting a piece of a batch into chunks that a lane takes to its GPU one after the other: plain arithmetic, tested
// without a GPU. All functions are pure.

#ifndef WIDELANE_ENGINE_SRC_CUDA_CHUNKS_H_
#define WIDELANE_ENGINE_SRC_CUDA_CHUNKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "widelane/engine/batch_view.h"

namespace widelane::cuda {

// Copies begin at entries whose number is a multiple of this, so that they begin on a cache line wherever a slab's
// array does.
inline constexpr uint32_t kEntryAlignment = 64;

struct ChunkLimits {
  uint32_t entries = 0;  // a chunk's at most, unless it is `row_step` rows that have more
  uint32_t rows = 0;     // a chunk's at most, unless it is fewer than `row_step`
  uint32_t row_step = kGroupRows;
  // The last chunk should have about this many: its kernel starts when all copies are done, and nothing hides it. Much
  // less, and the copy's own start takes longer than the kernel.
  uint32_t last_entries = 0;
};

struct Chunk {
  uint32_t first_row = 0;
  uint32_t rows = 0;
  uint32_t first_entry = 0;  // of the copy: at or before the first row's
  uint32_t entries = 0;      // of the copy: from there to the last row's last
};

// The next chunk of rows [row, end), row < end. The first chunks are as large as they may be: each copy costs the bus
// more than a microsecond. `row` is a multiple of limits.row_step.
Chunk NextChunk(const BatchView& batch, uint32_t row, uint32_t end, const ChunkLimits& limits);

// The same batch with row `row` as its row 0, for results of a model with `outputs`. Groups and lengths are gone when
// `row` is inside a group; entries stay where they are.
BatchView FromRow(const BatchView& batch, uint32_t row, uint32_t outputs);

// Bounds of `parts.size()` ranges of `features` in proportion to `parts`, whose sum is not 0: range i is [bounds[i],
// bounds[i + 1]).
std::vector<uint64_t> CutFeatures(uint64_t features, const std::vector<uint64_t>& parts);

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_CHUNKS_H_
