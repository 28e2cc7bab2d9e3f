// One sealed batch as backends see it. Plain data, so that code for GPUs and for wide instruction sets can include it.

#ifndef WIDELANE_ENGINE_BATCH_VIEW_H_
#define WIDELANE_ENGINE_BATCH_VIEW_H_

#include <cstdint>

namespace widelane {

// Rows are numbered in groups: where each group's entries begin is kept apart, so that a row's length in one byte is
// all else a GPU needs. Batches are cut over devices between groups.
inline constexpr uint32_t kGroupRows = 32;

// Row r holds entries row_begin[r] to row_begin[r + 1].
struct BatchView {
  uint32_t rows = 0;
  uint32_t entries = 0;
  uint32_t longest_row = 0;               // entries of the longest row
  const uint32_t* row_begin = nullptr;    // [rows + 1]
  const uint32_t* group_begin = nullptr;  // [rows / kGroupRows, rounded up]: row_begin of each group's first row
  // Entries of each row once more, in the fewest bytes that hold the longest row's. At most one is set; none when a row
  // is longer than 65,535.
  const uint8_t* lengths8 = nullptr;    // [rows]
  const uint16_t* lengths16 = nullptr;  // [rows]
  // Exactly one of the two is set, by Model::narrow_indices().
  const uint16_t* indices16 = nullptr;  // [entries]
  const uint32_t* indices32 = nullptr;  // [entries]
  // At most one is set, by the batch's kind; none: all values are 1.
  const uint16_t* values16 = nullptr;  // [entries], IEEE half precision
  const float* values32 = nullptr;     // [entries]
  const float* row_max = nullptr;      // [rows], largest |value| of each row; set with values
  // In batches of a kind with contexts: sums that are added to a row's own before anything else is done with it.
  // Integers, in steps of the row's grid, which row_max or (without values) 1 decides: those of a whole row and its
  // context.
  uint32_t context_lines = 0;
  const int64_t* context_sums = nullptr;   // [context_lines][outputs]
  const uint16_t* context_line = nullptr;  // [rows]: the line of each row
  // Results. With best > 0 only the last two are set, else any of the first two.
  float* scores = nullptr;           // [rows][outputs]
  double* raw = nullptr;             // [rows][outputs]
  uint32_t best = 0;                 // outputs wanted of each row: those with the largest raw sums
  uint32_t* best_outputs = nullptr;  // [rows][best], largest raw sum first, equal ones by lower index
  float* best_scores = nullptr;      // [rows][best], their scores
};

// Entries of each row of a whole batch when all rows have the same number of them, and some: row r then holds entries
// r * length to (r + 1) * length, and nobody needs an array to know. Else 0.
inline uint32_t UniformLength(const BatchView& batch) {
  const bool uniform =
      batch.rows > 0 && batch.row_begin[0] == 0 && uint64_t{batch.rows} * batch.longest_row == batch.entries;
  return uniform ? batch.longest_row : 0;
}

}  // namespace widelane

#endif  // WIDELANE_ENGINE_BATCH_VIEW_H_
