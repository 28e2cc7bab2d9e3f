#include "absl/status/status.h"
#include "cuda/cusparse_lane.h"

namespace widelane::cuda {

absl::StatusOr<std::unique_ptr<Lane>> MakeCusparseLane(const EngineOptions& /*options*/, int /*device*/) {
  return absl::FailedPreconditionError("this build has no cuSPARSE: its header was not found");
}

}  // namespace widelane::cuda
