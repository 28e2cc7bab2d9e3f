#include "cut_csr.h"

#include <algorithm>

#include "elements.h"

namespace widelane {

CsrCutter::CsrCutter(const CsrView& csr) : csr_(csr), rows_(RowCount(csr)) {}

CsrCutter::Part CsrCutter::PartFrom(uint64_t row, uint64_t begin, uint64_t rows, uint64_t entries) const {
  Part part{row, 0, begin, 0};
  if (csr_.indptr.has_value()) {
    // The last offset that is at most begin + entries.
    uint64_t low = row;
    uint64_t high = row + rows;
    while (low < high) {
      const uint64_t middle = low + (high - low + 1) / 2;
      if (IntegerAt(*csr_.indptr, middle) - begin <= entries) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    part.rows = std::max(low, std::min(row + 1, row + rows)) - row;
    part.entries = IntegerAt(*csr_.indptr, row + part.rows) - begin;
    return part;
  }
  while (part.rows < rows) {
    const uint64_t length = IntegerAt(*csr_.row_lengths, row + part.rows);
    if (part.rows > 0 && part.entries + length > entries) break;
    part.entries += length;
    ++part.rows;
  }
  return part;
}

std::vector<CsrCutter::Part> CsrCutter::Take(const CsrShape& room, uint64_t most_entries, uint64_t part_entries) {
  std::vector<Part> parts;
  uint64_t rows_left = std::min(room.rows, rows_ - row_);
  uint64_t entries_left = room.entries;
  while (rows_left > 0) {
    const Part part = PartFrom(row_, begin_, rows_left, std::min(part_entries, entries_left));
    if (part.entries > (parts.empty() ? most_entries : entries_left)) break;
    parts.push_back(part);
    row_ += part.rows;
    begin_ += part.entries;
    rows_left -= part.rows;
    if (part.entries >= entries_left) break;
    entries_left -= part.entries;
  }
  return parts;
}

}  // namespace widelane
