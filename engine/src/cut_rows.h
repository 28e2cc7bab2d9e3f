// Cutting a batch by rows into parts of about equal work.

#ifndef WIDELANE_ENGINE_SRC_CUT_ROWS_H_
#define WIDELANE_ENGINE_SRC_CUT_ROWS_H_

#include <cstdint>

#include "widelane/engine/batch_view.h"

namespace widelane {

// Entries plus rows: what a batch costs for each output, so that empty rows count too.
inline uint64_t WorkOfRows(const BatchView& batch, uint32_t first_row, uint32_t rows) {
  return uint64_t{batch.row_begin[first_row + rows]} - batch.row_begin[first_row] + rows;
}

// The first row of part `part` of `parts` among rows [first_row, first_row + rows): the least row before which at least
// that share of the work lies. Part `parts` begins behind the last row. Parts may be empty, where a row is long.
inline uint32_t PartBegin(const BatchView& batch, uint32_t first_row, uint32_t rows, uint64_t part, uint64_t parts) {
  const uint64_t target = WorkOfRows(batch, first_row, rows) * part / parts;
  uint32_t low = 0;
  uint32_t high = rows;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (WorkOfRows(batch, first_row, middle) < target) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return first_row + low;
}

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_CUT_ROWS_H_
