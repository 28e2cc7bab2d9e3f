// Made-up rows for probes and measurements.

#ifndef WIDELANE_ENGINE_SRC_MADE_ROWS_H_
#define WIDELANE_ENGINE_SRC_MADE_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "widelane/engine/csr.h"
#include "widelane/engine/engine.h"

namespace widelane {

// Rows of the given lengths, and a few contexts, with features drawn evenly from a model's, and values that a kind of
// batch holds.
class MadeRows {
 public:
  MadeRows(const Model& model, std::vector<uint32_t> lengths);

  // Opens `slab` for a batch of `kind` with these rows, packs and seals it. Errors: INTERNAL when they do not fit,
  // RESOURCE_EXHAUSTED when the sums of the contexts do not.
  absl::Status Fill(Slab& slab, const std::shared_ptr<const LoadedModel>& model, const BatchKind& kind) const;

 private:
  CsrView Rows(Values values, const std::vector<uint32_t>& lengths, size_t entries) const;

  std::vector<uint32_t> lengths_;
  std::vector<uint32_t> indices_;
  std::vector<float> halves_;  // each exactly a float16
  std::vector<float> floats_;
  std::vector<uint16_t> context_of_;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_MADE_ROWS_H_
