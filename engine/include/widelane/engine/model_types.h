// The words of a model that the arithmetic needs, apart from Model itself, so that code for GPUs and for wide
// instruction sets can include them.

#ifndef WIDELANE_ENGINE_MODEL_TYPES_H_
#define WIDELANE_ENGINE_MODEL_TYPES_H_

#include <cstdint>

namespace widelane {

enum class WeightType : uint8_t { kFloat32, kFloat16, kBfloat16, kInt8 };

// What turns raw sums into scores.
enum class Link : uint8_t {
  kIdentity,   // the raw sum
  kSigmoid,    // 1 / (1 + exp(-raw)), each output by itself
  kSoftmax,    // exp(raw_k) / sum of exp(raw_j)
  kOneVsRest,  // sigmoid(raw_k) / sum of sigmoid(raw_j), as liblinear and scikit-learn's "ovr" normalise
  kExp,        // exp(raw), each output by itself
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_MODEL_TYPES_H_
