// One sealed batch as backends see it. Plain data, so that code for GPUs and for wide instruction sets can include it.

#ifndef WIDELANE_ENGINE_BATCH_VIEW_H_
#define WIDELANE_ENGINE_BATCH_VIEW_H_

#include <cstdint>

namespace widelane {

// Row r holds entries row_begin[r] to row_begin[r + 1]; results are [rows][outputs].
struct BatchView {
  uint32_t rows = 0;
  uint32_t entries = 0;
  const uint32_t* row_begin = nullptr;  // [rows + 1]
  const uint16_t* indices16 = nullptr;  // [entries]; exactly one of the two is set, by Model::narrow_indices()
  const uint32_t* indices32 = nullptr;
  const float* values = nullptr;   // [entries]; null: all are 1
  const float* row_max = nullptr;  // [rows], largest |value| of each row; null: all are 1
  float* scores = nullptr;         // null when not wanted
  double* raw = nullptr;           // null when not wanted
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_BATCH_VIEW_H_
