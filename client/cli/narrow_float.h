// Doubles to the narrow types weights are stored in, rounded once, to nearest and ties to even.

#ifndef WIDELANE_CLIENT_CLI_NARROW_FLOAT_H_
#define WIDELANE_CLIENT_CLI_NARROW_FLOAT_H_

#include <cstddef>

#include "widelane/engine/model.h"

namespace widelane::cli {

// Writes `value` as `type` (kFloat32, kFloat16 or kBfloat16) to `out`, little-endian. False when it is not finite in
// that type.
bool StoreWeight(double value, WeightType type, std::byte* out);

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_NARROW_FLOAT_H_
