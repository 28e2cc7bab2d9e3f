// Scores with cuSPARSE's SpMV and SpMM in float32, for comparisons. Outside the numeric contract.

#ifndef WIDELANE_ENGINE_SRC_CUDA_CUSPARSE_LANE_H_
#define WIDELANE_ENGINE_SRC_CUDA_CUSPARSE_LANE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backend.h"
#include "widelane/engine/options.h"

namespace widelane::cuda {

// On the current device, which is `device`. The lane takes residents with float_weights(), copies every batch, and
// does all its work in Start. The stage `compute` is the product alone, by the algorithm that was the fastest of all
// when the lane first saw a batch of about that size for that model. Errors: FAILED_PRECONDITION where there is no
// cuSPARSE, at run time or in this build.
absl::StatusOr<std::unique_ptr<Lane>> MakeCusparseLane(const EngineOptions& options, int device);

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_CUSPARSE_LANE_H_
