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

uint64_t BytesOfInput(const LaneWork& work) {
  const BatchView& batch = *work.batch;
  const uint64_t rows = work.rows;
  const uint64_t index = batch.indices16 != nullptr ? sizeof(*batch.indices16) : sizeof(*batch.indices32);
  const uint64_t value = batch.values16 != nullptr ? sizeof(*batch.values16) : sizeof(*batch.values32);
  const bool has_values = batch.values16 != nullptr || batch.values32 != nullptr;
  uint64_t bytes = EntriesOf(work) * (index + (has_values ? value : 0));
  if (batch.row_max != nullptr) bytes += rows * sizeof(*batch.row_max);
  if (batch.context_sums != nullptr) {
    bytes += uint64_t{batch.context_lines} * work.model->outputs() * sizeof(*batch.context_sums);
    bytes += rows * sizeof(*batch.context_line);
  }
  if (UniformLength(batch) > 0) return bytes;
  if (batch.lengths8 == nullptr && batch.lengths16 == nullptr) return bytes + (rows + 1) * sizeof(*batch.row_begin);
  const uint64_t length = batch.lengths8 != nullptr ? sizeof(*batch.lengths8) : sizeof(*batch.lengths16);
  return bytes + rows * length + (rows + kGroupRows - 1) / kGroupRows * sizeof(*batch.group_begin);
}

uint64_t BytesOfResults(const LaneWork& work) {
  const BatchView& batch = *work.batch;
  if (batch.best > 0)
    return uint64_t{work.rows} * batch.best * (sizeof(*batch.best_outputs) + sizeof(*batch.best_scores));
  const uint64_t of_output =
      (batch.scores != nullptr ? sizeof(*batch.scores) : 0) + (batch.raw != nullptr ? sizeof(*batch.raw) : 0);
  return uint64_t{work.rows} * work.model->outputs() * of_output;
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
