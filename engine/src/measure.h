// Measures at load what batches of a model cost on each route.

#ifndef WIDELANE_ENGINE_SRC_MEASURE_H_
#define WIDELANE_ENGINE_SRC_MEASURE_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "costs.h"
#include "widelane/engine/engine.h"

namespace widelane {

// A place to measure, and others that are the same and so need not be.
struct MeasuredRoute {
  Route route = Route::kInline;
  size_t device = 0;
  std::vector<size_t> same_devices;
};

// Scores rows [0, rows) of the sealed slab on a route and waits.
using RunRows = absl::FunctionRef<absl::Status(SlabHandle& slab, const MeasuredRoute& place, uint32_t rows)>;

// Scores made-up batches of growing size, of each kind and with few and many entries a row, on every route, within
// about `budget`; small batches first, so that what is left out is the largest. (A model of which a few rows take
// longer than that takes longer.) `slab` is any free one. Errors: RunRows's.
absl::StatusOr<std::unique_ptr<const CostTable>> MeasureCosts(const std::shared_ptr<const LoadedModel>& model,
                                                              const std::vector<MeasuredRoute>& places,
                                                              SlabHandle& slab, std::chrono::milliseconds budget,
                                                              RunRows run);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_MEASURE_H_
