// A model's weights, or those of a range of its features, in the memory of one GPU.

#ifndef WIDELANE_ENGINE_SRC_CUDA_RESIDENT_H_
#define WIDELANE_ENGINE_SRC_CUDA_RESIDENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "backend.h"
#include "cuda/kernels.h"
#include "cuda/memory_budget.h"
#include "cuda/owners.h"
#include "cuda/uploader.h"

namespace widelane::cuda {

struct FeatureRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// All of a model's.
inline FeatureRange AllFeatures(const Model& model) { return {0, model.features()}; }

// Never changes once made.
class CudaResident : public ResidentModel {
 public:
  // Bytes it takes. `float_weights`: the weights once more in float32, unless they are that already.
  static uint64_t Bytes(const Model& model, const FeatureRange& features, bool float_weights);
  // On the current device, the uploader's. Returns when everything is there. `share` is of Bytes(...).
  static absl::StatusOr<std::unique_ptr<CudaResident>> Create(const Model& model, const FeatureRange& features,
                                                              bool float_weights, MemoryBudget::Share share,
                                                              Uploader& uploader);

  // The model's part of the arguments.
  ScoreArguments Arguments(const Model& model) const;
  // [features + 1][outputs] in float32, the stored numbers of int8; null unless asked for.
  const float* float_weights() const;

 private:
  explicit CudaResident(MemoryBudget::Share share) : share_(std::move(share)) {}
  absl::Status Upload(const Model& model, const FeatureRange& features, Uploader& uploader);
  absl::Status WidenWeights(const Model& model, int device);

  const MemoryBudget::Share share_;  // first: given back when the memory is free
  FeatureRange features_;
  DeviceBuffer<std::byte> weights_;
  DeviceBuffer<double> bias_;
  DeviceBuffer<double> scale_;
  DeviceBuffer<float> widened_;
  bool is_float_ = false;
};

}  // namespace widelane::cuda

#endif  // WIDELANE_ENGINE_SRC_CUDA_RESIDENT_H_
