// One stream of a GPU with its device buffers and events.

#ifndef WIDELANE_ENGINE_SRC_CUDA_CUDA_LANE_H_
#define WIDELANE_ENGINE_SRC_CUDA_CUDA_LANE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backend.h"
#include "cuda/kernels.h"
#include "cuda/launch_plan.h"
#include "cuda/owners.h"
#include "widelane/engine/options.h"

namespace widelane::cuda {

class CudaResident;

// Used by the thread that made it, which is bound to the lane's GPU. May be destroyed on any thread.
class CudaLane : public Lane {
 public:
  // Allocates all that batches up to `slab` need, on the current device, which is `device`.
  static absl::StatusOr<std::unique_ptr<CudaLane>> Create(const SlabOptions& slab, int device);

  absl::Status Score(const Model& model, const ResidentModel& resident, const BatchView& batch, uint32_t first_row,
                     uint32_t rows, StageTimes& stages) override;

 private:
  // The rows of one Score call.
  struct Part {
    const BatchView& batch;
    uint32_t first_row;
    uint32_t rows;
    uint32_t first_entry;
    uint32_t entries;
    size_t first_result;
    size_t results;
  };

  CudaLane(const SlabOptions& slab, int device) : slab_(slab), device_(device) {}
  absl::Status Allocate();

  absl::Status CheckFits(const Part& part) const;
  // Start everything and return; the results are there after `transferred_out_`.
  absl::Status Enqueue(const Model& model, const CudaResident& resident, const Part& part);
  absl::Status EnqueueInputs(const Part& part);
  absl::Status EnqueuePieces(const PieceCount& cut);
  absl::Status EnqueueResults(const Part& part);
  ScoreArguments Arguments(const Model& model, const CudaResident& resident, const Part& part) const;
  absl::Status Wait();
  absl::Status AddStages(StageTimes& stages) const;

  template <typename T>
  absl::Status CopyIn(const T* from, size_t count, T* to);
  template <typename T>
  absl::Status CopyOut(const T* from, size_t count, T* to);
  absl::Status Record(const Event& event);

  const SlabOptions slab_;
  const int device_;

  // The stream comes last of what it uses and so is destroyed first.
  DeviceBuffer<uint32_t> row_begin_;
  DeviceBuffer<float> row_max_;
  DeviceBuffer<uint32_t> indices_;  // of 32 bits; holds 16-bit ones as well
  DeviceBuffer<float> values_;
  DeviceBuffer<Piece> pieces_;
  DeviceBuffer<uint32_t> long_rows_;
  DeviceBuffer<int64_t> long_sums_;
  DeviceBuffer<double> raw_;
  DeviceBuffer<float> scores_;
  PinnedBuffer<Piece> host_pieces_;
  PinnedBuffer<uint32_t> host_long_rows_;
  Event started_;
  Event transferred_in_;
  Event computed_;
  Event transferred_out_;
  Stream stream_;
};

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_CUDA_LANE_H_
