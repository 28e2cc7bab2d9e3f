#include "widelane/engine/outputs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "numeric.h"
#include "select_best.h"
#include "widelane/engine/route.h"

namespace widelane {

uint32_t LabelOf(const Model& model, const double* raw) {
  if (model.outputs() == 1) {
    const bool positive = model.tie() == Tie::kPositive ? raw[0] >= 0 : raw[0] > 0;
    return positive ? 1 : 0;
  }
  return static_cast<uint32_t>(std::max_element(raw, raw + model.outputs()) - raw);
}

uint32_t ProbabilityCount(const Model& model) { return model.outputs() == 1 ? 2 : model.outputs(); }

void Probabilities(const Model& model, const double* raw, float* out) {
  const uint32_t outputs = model.outputs();
  if (outputs == 1) {
    out[0] = static_cast<float>(numeric::Sigmoid(-raw[0]));
    out[1] = static_cast<float>(numeric::Sigmoid(raw[0]));
    return;
  }
  if (numeric::IsPointwise(model.link())) {
    for (uint32_t k = 0; k < outputs; ++k) out[k] = static_cast<float>(numeric::PointwiseLink(model.link(), raw[k]));
    return;
  }
  const double max = *std::max_element(raw, raw + outputs);
  int64_t sum = 0;
  for (uint32_t k = 0; k < outputs; ++k) sum += numeric::ShareSteps(numeric::Share(model.link(), raw[k], max));
  for (uint32_t k = 0; k < outputs; ++k) {
    out[k] = static_cast<float>(numeric::Normalised(numeric::Share(model.link(), raw[k], max), sum));
  }
}

absl::Status CheckHasProbabilities(const Model& model) {
  if (model.has_probabilities()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the model has no probabilities: its link is ", LinkName(model.link()),
                   model.source().empty() ? "" : ", it came from ", model.source(), "; ask for scores, raw or labels"));
}

void TopK(const double* raw, uint32_t outputs, uint32_t k, uint32_t* scratch, uint32_t* out) {
  if (k == 0) return;
  if (k <= kMaxBest) {
    double best_raw[kMaxBest];
    return SelectBest(raw, outputs, k, out, best_raw);
  }
  std::iota(scratch, scratch + outputs, 0U);
  const auto better = [raw](uint32_t a, uint32_t b) { return raw[a] != raw[b] ? raw[a] > raw[b] : a < b; };
  std::partial_sort(scratch, scratch + k, scratch + outputs, better);
  std::copy_n(scratch, k, out);
}

}  // namespace widelane
