#include "cuda/lane_work.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cuda/cuda_error.h"
#include "cuda/current_device.h"
#include "cuda/pinned_memory.h"
#include "spin.h"

namespace widelane::cuda {

uint32_t EntriesOf(const LaneWork& work) {
  const uint32_t* begin = work.batch->row_begin + work.first_row;
  return begin[work.rows] - begin[0];
}

bool WantsNothing(const LaneWork& work) {
  const BatchView& batch = *work.batch;
  return work.rows == 0 || (batch.scores == nullptr && batch.raw == nullptr && batch.best == 0);
}

absl::Status CheckFits(const SlabOptions& slab, const LaneWork& work) {
  const uint64_t end = uint64_t{work.first_row} + work.rows;
  const uint64_t context_sums = uint64_t{work.batch->context_lines} * work.model->outputs();
  if (work.first_row % kGroupRows == 0 && end <= slab.rows && EntriesOf(work) <= slab.entries &&
      work.model->outputs() <= slab.results && context_sums <= slab.context_sums) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(
      "rows ", work.first_row, " to ", end, " with ", EntriesOf(work), " entries and ", context_sums,
      " context sums, for ", work.model->outputs(), " outputs, are beyond a lane for ", slab.rows, " rows, ",
      slab.entries, " entries, ", slab.results, " results and ", slab.context_sums, " context sums"));
}

void DieUnlessAllPinned(const BatchView& batch) {
  const struct {
    const void* data;
    const char* array;
  } arrays[] = {{batch.row_begin, "row_begin"},
                {batch.group_begin, "group_begin"},
                {batch.lengths8, "lengths8"},
                {batch.lengths16, "lengths16"},
                {batch.indices16, "indices16"},
                {batch.indices32, "indices32"},
                {batch.values16, "values16"},
                {batch.values32, "values32"},
                {batch.row_max, "row_max"},
                {batch.context_sums, "context_sums"},
                {batch.context_line, "context_line"},
                {batch.scores, "scores"},
                {batch.raw, "raw"},
                {batch.best_outputs, "best_outputs"},
                {batch.best_scores, "best_scores"}};
  for (const auto& [data, array] : arrays) {
    if (data != nullptr) DieUnlessPinned(data, array);
  }
}

std::chrono::microseconds PatienceFor(const LaneWork& work, std::chrono::microseconds spin) {
  constexpr double kMostNs = 2e6;
  if (spin.count() == 0) return spin;
  const std::chrono::duration<double, std::nano> expected(std::min(work.expected_ns, kMostNs));
  return spin + std::chrono::duration_cast<std::chrono::microseconds>(expected);
}

absl::Status WaitFor(cudaEvent_t event, std::chrono::microseconds spin, int device) {
  if (absl::Status status = BindIfUnbound(device); !status.ok()) return status;
  cudaError_t code = cudaErrorNotReady;
  SpinUntil(spin, [&] {
    code = cudaEventQuery(event);
    return code != cudaErrorNotReady;
  });
  // "Not ready" would else be found by the check after this thread's next launch.
  (void)cudaGetLastError();
  if (code == cudaErrorNotReady) code = cudaEventSynchronize(event);
  WIDELANE_CUDA_RETURN_IF_ERROR(code, device);
  return absl::OkStatus();
}

}  // namespace widelane::cuda
