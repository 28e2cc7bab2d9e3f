// What all lanes on GPUs do alike.

#ifndef WIDELANE_ENGINE_SRC_CUDA_LANE_WORK_H_
#define WIDELANE_ENGINE_SRC_CUDA_LANE_WORK_H_

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "backend.h"
#include "widelane/engine/options.h"

namespace widelane::cuda {

uint32_t EntriesOf(const LaneWork& work);

// Bytes of the batch that the work's kernels need, and of the results that they give.
uint64_t BytesOfInput(const LaneWork& work);
uint64_t BytesOfResults(const LaneWork& work);

// Whether there are no rows or no results to compute.
bool WantsNothing(const LaneWork& work);

// INTERNAL unless the work is within `slab`. The engine cuts batches to fit; memory is not to be overwritten should it
// ever fail to.
absl::Status CheckFits(const SlabOptions& slab, const LaneWork& work);

// Stops the process unless all arrays of the batch are pinned.
void DieUnlessAllPinned(const BatchView& batch);

// How long to look for the end of `work` before sleeping: as long as it should take and `spin` more, within reason; not
// at all where threads do not spin.
std::chrono::microseconds PatienceFor(const LaneWork& work, std::chrono::microseconds spin);

// Looks for `event` to pass for `spin`, then sleeps until it has. Any thread. Errors: the device's.
absl::Status WaitFor(cudaEvent_t event, std::chrono::microseconds spin, int device);

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_LANE_WORK_H_
