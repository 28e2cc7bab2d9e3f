#include "cuda/resident.h"

#include <algorithm>
#include <utility>

#include "cuda/cuda_error.h"
#include "cuda/cusparse_kernels.h"

namespace widelane::cuda {
namespace {

// Kernels read weights 16 bytes at a time, to the end.
constexpr uint64_t kVector = 16;

// Of one feature.
uint64_t FeatureBytes(const Model& model) { return uint64_t{model.outputs()} * WeightSize(model.weight_type()); }

uint64_t WeightBytes(const Model& model, const FeatureRange& features) {
  const uint64_t bytes = (features.end - features.begin + 1) * FeatureBytes(model);
  return (bytes + kVector - 1) / kVector * kVector;
}

uint64_t WidenedWeights(const Model& model, const FeatureRange& features) {
  return model.weight_type() == WeightType::kFloat32 ? 0 : (features.end - features.begin + 1) * model.outputs();
}

}  // namespace

uint64_t CudaResident::Bytes(const Model& model, const FeatureRange& features, bool float_weights) {
  const uint64_t widened = float_weights ? WidenedWeights(model, features) * sizeof(float) : 0;
  return WeightBytes(model, features) + uint64_t{model.outputs()} * 2 * sizeof(double) + widened;
}

absl::StatusOr<std::unique_ptr<CudaResident>> CudaResident::Create(const Model& model, const FeatureRange& features,
                                                                   bool float_weights, MemoryBudget::Share share,
                                                                   Uploader& uploader) {
  std::unique_ptr<CudaResident> resident(new CudaResident(std::move(share)));
  if (absl::Status status = resident->Upload(model, features, uploader); !status.ok()) return status;
  if (float_weights && WidenedWeights(model, features) > 0) {
    if (absl::Status status = resident->WidenWeights(model, uploader.device()); !status.ok()) return status;
  }
  return resident;
}

absl::Status CudaResident::Upload(const Model& model, const FeatureRange& features, Uploader& uploader) {
  const int device = uploader.device();
  const uint64_t outputs = model.outputs();
  features_ = features;
  is_float_ = model.weight_type() == WeightType::kFloat32;
  absl::Status status = Keep(CreateDeviceBuffer<std::byte>(WeightBytes(model, features), device), weights_);
  status.Update(Keep(CreateDeviceBuffer<double>(outputs, device), bias_));
  status.Update(Keep(CreateDeviceBuffer<double>(outputs, device), scale_));
  if (!status.ok()) return status;

  const uint64_t feature_bytes = FeatureBytes(model);
  const uint64_t bytes = (features.end - features.begin) * feature_bytes;
  status = uploader.Upload(model.weights() + features.begin * feature_bytes, bytes, weights_.data());
  // The zero feature, which is the model's last.
  status.Update(uploader.Upload(model.weights() + uint64_t{model.zero_feature()} * feature_bytes, feature_bytes,
                                weights_.data() + bytes));
  status.Update(uploader.Upload(model.bias().data(), outputs * sizeof(double), bias_.data()));
  status.Update(uploader.Upload(model.scale().data(), outputs * sizeof(double), scale_.data()));
  return status;
}

absl::Status CudaResident::WidenWeights(const Model& model, int device) {
  const uint64_t count = WidenedWeights(model, features_);
  if (absl::Status status = Keep(CreateDeviceBuffer<float>(count, device), widened_); !status.ok()) return status;
  Stream stream;
  if (absl::Status status = Keep(CreateStream(device), stream); !status.ok()) return status;
  WIDELANE_CUDA_RETURN_IF_ERROR(
      LaunchWidenWeights(model.weight_type(), weights_.data(), count, widened_.data(), stream.get()), device);
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream.get()), device);
  return absl::OkStatus();
}

ScoreArguments CudaResident::Arguments(const Model& model) const {
  ScoreArguments arguments;
  arguments.weights = weights_.data();
  arguments.bias = bias_.data();
  arguments.scale = scale_.data();
  arguments.max_weight = model.max_weight();
  arguments.features = static_cast<uint32_t>(features_.end - features_.begin);
  arguments.first_feature = static_cast<uint32_t>(features_.begin);
  arguments.outputs = model.outputs();
  arguments.weight_type = model.weight_type();
  arguments.link = model.link();
  return arguments;
}

const float* CudaResident::float_weights() const {
  return is_float_ ? reinterpret_cast<const float*>(weights_.data()) : widened_.data();
}

}  // namespace widelane::cuda
