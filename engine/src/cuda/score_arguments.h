// From a batch to the arguments of the kernels.

#ifndef WIDELANE_ENGINE_SRC_CUDA_SCORE_ARGUMENTS_H_
#define WIDELANE_ENGINE_SRC_CUDA_SCORE_ARGUMENTS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "cuda/kernels.h"
#include "cuda/owners.h"
#include "widelane/engine/batch_view.h"

namespace widelane::cuda {

// Rows [first_row, first_row + rows) of `batch`, which lies in host memory and which kernels see as `view`: entry e is
// element e - first_entry of view's indices and values.
void SetRows(const BatchView& view, const BatchView& batch, uint32_t first_row, uint32_t rows, uint32_t first_entry,
             ScoreArguments& arguments);
void SetResults(const BatchView& view, ScoreArguments& arguments);

// Lists of long rows and their pieces in pinned memory, where kernels read them: a few bytes for thousands of entries.
class LongRows {
 public:
  // For batches of up to `entries`.
  static absl::StatusOr<std::unique_ptr<LongRows>> Create(uint32_t entries, int device);

  // Before a batch; nothing reads the former one's lists any more.
  void Reset() { pieces_used_ = rows_used_ = 0; }
  // Looks for long rows among the rows that `arguments` is set to, which are rows [0, arguments.rows) of `batch`, whose
  // row_begin is in host memory. The calls of a batch use different parts of the lists.
  void Cut(const BatchView& batch, ScoreArguments& arguments);

 private:
  LongRows() = default;
  PinnedBuffer<Piece> pieces_;
  PinnedBuffer<uint32_t> rows_;
  uint32_t pieces_used_ = 0;
  uint32_t rows_used_ = 0;
};

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_SCORE_ARGUMENTS_H_
