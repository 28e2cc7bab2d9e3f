// Cutting a caller's arrays into batches, and batches into parts for several threads.

#ifndef WIDELANE_ENGINE_SRC_CUT_CSR_H_
#define WIDELANE_ENGINE_SRC_CUT_CSR_H_

#include <cstdint>
#include <vector>

#include "widelane/engine/csr.h"

namespace widelane {

// Goes through a checked view from its first row to its last. With offsets (indptr) parts are found by halving, with
// row lengths by adding them up.
class CsrCutter {
 public:
  // `csr` outlives the cutter.
  explicit CsrCutter(const CsrView& csr);

  uint64_t rows() const { return rows_; }
  // The next row, and its first entry.
  uint64_t row() const { return row_; }
  uint64_t entry() const { return begin_; }
  bool done() const { return row_ == rows_; }

  // Rows [row, row + rows), whose entries are [begin, begin + entries).
  struct Part {
    uint64_t row = 0;
    uint64_t rows = 0;
    uint64_t begin = 0;
    uint64_t entries = 0;
  };
  // The next rows that fit into `room`, in parts of at most `part_entries` entries, or one row that is longer. A first
  // row beyond room.entries is taken alone if it has at most `most_entries`. Empty when not one row fits.
  std::vector<Part> Take(const CsrShape& room, uint64_t most_entries, uint64_t part_entries);

 private:
  // The most rows from `row` on, at least 1 unless none is left, whose entries are at most `entries`.
  Part PartFrom(uint64_t row, uint64_t begin, uint64_t rows, uint64_t entries) const;

  const CsrView& csr_;
  const uint64_t rows_;
  uint64_t row_ = 0;
  uint64_t begin_ = 0;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_CUT_CSR_H_
