// What a reply can show of a row, computed on the host from the row's raw sums: labels, probabilities, the best k.
//
// `raw` is always [model.outputs()], as Slab::raw gives it. All functions are pure.

#ifndef WIDELANE_ENGINE_OUTPUTS_H_
#define WIDELANE_ENGINE_OUTPUTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "widelane/engine/model.h"

namespace widelane {

// Index into model.labels(): for one output by sign and tie rule, else the output with the largest raw sum, the
// lowest of equals. The model has labels.
uint32_t LabelOf(const Model& model, const double* raw);

// Number of probabilities a row has: outputs, or 2 for one output with a sigmoid.
uint32_t ProbabilityCount(const Model& model);

// Writes ProbabilityCount numbers in the order of model.labels(): for one output {P(labels[0]), P(labels[1])}, both
// rounded from double. The model has probabilities.
void Probabilities(const Model& model, const double* raw, float* out);

// FAILED_PRECONDITION naming the link when the model's scores are not probabilities.
absl::Status CheckHasProbabilities(const Model& model);

// Writes the k outputs with the largest raw sums, largest first, equal ones by lower index. k <= outputs.
// `scratch` is [outputs]; its content is lost.
void TopK(const double* raw, uint32_t outputs, uint32_t k, uint32_t* scratch, uint32_t* out);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_OUTPUTS_H_
