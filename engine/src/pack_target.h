// Where PackRows writes: the arrays of one segment.

#ifndef WIDELANE_ENGINE_SRC_PACK_TARGET_H_
#define WIDELANE_ENGINE_SRC_PACK_TARGET_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "widelane/engine/model.h"
#include "widelane/engine/slab.h"

namespace widelane {

class PackTarget {
 public:
  PackTarget(Slab& slab, const Segment& segment);

  // Notes where row `r` of the segment begins (counted in the segment) and how long it is. All rows are written, in
  // order or not.
  void WriteRow(uint32_t r, uint32_t begin, uint32_t length) {
    const uint32_t row = segment.first_row + r;
    row_begin_[row] = segment.first_entry + begin;
    lengths8_[row] = static_cast<uint8_t>(length);  // read only when every length fits
    lengths16_[row] = static_cast<uint16_t>(length);
    if (row % kGroupRows == 0) group_begin_[row / kGroupRows] = segment.first_entry + begin;
    longest_ = std::max(longest_, length);
  }
  // After the last row.
  void FinishRows();

  // Each from the segment's first row or entry on.
  const Segment segment;
  const Model& model;
  uint16_t* indices16 = nullptr;  // one of the two
  uint32_t* indices32 = nullptr;
  uint16_t* values16 = nullptr;  // at most one of the two
  float* values32 = nullptr;
  float* row_max = nullptr;         // with values
  int64_t* context_sums = nullptr;  // these two with contexts; the first from the segment's first line on
  uint16_t* context_line = nullptr;

 private:
  uint32_t* const row_begin_;  // these from the slab's first row on
  uint32_t* const group_begin_;
  uint8_t* const lengths8_;
  uint16_t* const lengths16_;
  std::atomic<uint32_t>& slab_longest_;
  uint32_t longest_ = 0;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_PACK_TARGET_H_
