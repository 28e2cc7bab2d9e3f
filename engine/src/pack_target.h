// Where PackRows writes: the arrays of one segment.

#ifndef WIDELANE_ENGINE_SRC_PACK_TARGET_H_
#define WIDELANE_ENGINE_SRC_PACK_TARGET_H_

#include <cstdint>

#include "widelane/engine/model.h"
#include "widelane/engine/slab.h"

namespace widelane {

class PackTarget {
 public:
  PackTarget(Slab& slab, const Segment& segment);

  uint32_t* const row_begin;
  float* const row_max;  // null without values
  float* const values;   // null without values
  const Model& model;
  uint16_t* indices16 = nullptr;  // one of the two
  uint32_t* indices32 = nullptr;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_PACK_TARGET_H_
