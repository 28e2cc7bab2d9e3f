#include "widelane/engine/model.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "elements.h"
#include "numeric.h"

namespace widelane {

namespace {

// Largest |weight| seen, or the position of one that is not finite.
struct Scan {
  double max = 0;
  bool finite = true;
  uint64_t position = 0;
};

template <typename T, typename ToFloat>
Scan ScanWeights(const std::byte* data, uint64_t count, ToFloat to_float) {
  // Finite floats compare below infinity, and a NaN compares false: one branch-free pass, then a second one to find the
  // place.
  constexpr uint64_t kBlock = 4096;
  Scan scan;
  float max = 0;
  for (uint64_t begin = 0; begin < count; begin += kBlock) {
    const uint64_t end = std::min(count, begin + kBlock);
    int bad = 0;
    for (uint64_t i = begin; i < end; ++i) {
      const float magnitude = std::fabs(to_float(LoadAt<T>(data, i)));
      bad |= static_cast<int>(!(magnitude < INFINITY));
      max = magnitude > max ? magnitude : max;
    }
    if (bad == 0) continue;
    scan.finite = false;
    scan.position = begin;
    while (std::isfinite(to_float(LoadAt<T>(data, scan.position)))) ++scan.position;
    return scan;
  }
  scan.max = max;
  return scan;
}

Scan ScanWeights(WeightType type, const std::byte* data, uint64_t count) {
  switch (type) {
    case WeightType::kFloat32:
      return ScanWeights<float>(data, count, [](float w) { return w; });
    case WeightType::kFloat16:
      return ScanWeights<uint16_t>(data, count, [](uint16_t w) { return numeric::FromFloat16(w); });
    case WeightType::kBfloat16:
      return ScanWeights<uint16_t>(data, count, [](uint16_t w) { return numeric::FromBfloat16(w); });
    case WeightType::kInt8:
      return ScanWeights<int8_t>(data, count, [](int8_t w) { return static_cast<float>(w); });
  }
  return {};
}

absl::Status CheckLabels(const ModelParts& parts) {
  const size_t expected = parts.outputs == 1 ? 2 : parts.outputs;
  if (parts.labels.empty() || parts.labels.size() == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("labels: there are ", parts.labels.size(), ", a model with ",
                                                 parts.outputs, parts.outputs == 1 ? " output" : " outputs", " has ",
                                                 expected, " or none"));
}

template <typename T>
absl::Status CheckPerOutput(const char* name, const std::vector<T>& numbers, uint32_t outputs) {
  if (numbers.size() != outputs) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": has ", numbers.size(), " numbers for ", outputs, " outputs"));
  }
  for (size_t k = 0; k < numbers.size(); ++k) {
    if (!std::isfinite(numbers[k])) return absl::InvalidArgumentError(absl::StrCat(name, "[", k, "]: is not finite"));
  }
  return absl::OkStatus();
}

}  // namespace

size_t WeightSize(WeightType type) {
  switch (type) {
    case WeightType::kFloat32:
      return 4;
    case WeightType::kInt8:
      return 1;
    default:
      return 2;
  }
}

const char* WeightTypeName(WeightType type) {
  switch (type) {
    case WeightType::kFloat32:
      return "float32";
    case WeightType::kFloat16:
      return "float16";
    case WeightType::kBfloat16:
      return "bfloat16";
    case WeightType::kInt8:
      return "int8";
  }
  return "?";
}

const char* LinkName(Link link) {
  switch (link) {
    case Link::kIdentity:
      return "identity";
    case Link::kSigmoid:
      return "sigmoid";
    case Link::kSoftmax:
      return "softmax";
    case Link::kOneVsRest:
      return "one_vs_rest";
    case Link::kExp:
      return "exp";
  }
  return "?";
}

absl::StatusOr<AlignedBuffer> ModelParts::AllocateWeights(uint64_t features, uint64_t outputs, WeightType type) {
  if (features > Model::kMaxFeatures) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight: ", features, " features, the limit is ", Model::kMaxFeatures));
  }
  if (outputs == 0 || outputs > Model::kMaxOutputs) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight: ", outputs, " outputs, there may be 1 to ", Model::kMaxOutputs));
  }
  const uint64_t bytes = (features + 1) * outputs * WeightSize(type);  // below 2^32 * 2^24 * 2^2
  AlignedBuffer buffer = AlignedBuffer::Allocate(bytes);
  if (buffer.data() == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("weight: no memory for ", bytes, " bytes"));
  }
  return buffer;
}

absl::StatusOr<std::shared_ptr<const Model>> Model::Create(ModelParts parts) {
  if (parts.features > kMaxFeatures || parts.outputs == 0 || parts.outputs > kMaxOutputs) {
    return absl::InvalidArgumentError(absl::StrCat("weight: ", parts.features, " features and ", parts.outputs,
                                                   " outputs; there may be 0 to ", kMaxFeatures, " and 1 to ",
                                                   kMaxOutputs));
  }
  const uint64_t count = parts.features * parts.outputs;
  const size_t size = WeightSize(parts.weight_type);
  if (parts.weights.size() != (count + parts.outputs) * size) {
    return absl::InvalidArgumentError(absl::StrCat("weight: ", parts.weights.size(), " bytes, ",
                                                   (count + parts.outputs) * size,
                                                   " are needed with the zero feature"));
  }
  if (parts.bias.empty()) parts.bias.assign(parts.outputs, 0.0);
  if (absl::Status status = CheckPerOutput("bias", parts.bias, parts.outputs); !status.ok()) return status;
  const bool scaled = parts.weight_type == WeightType::kInt8;
  if (!scaled && !parts.scale.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("scale: belongs to int8 weights, these are ", WeightTypeName(parts.weight_type)));
  }
  if (scaled) {
    if (absl::Status status = CheckPerOutput("scale", parts.scale, parts.outputs); !status.ok()) return status;
  }
  if (parts.outputs == 1 && !numeric::IsPointwise(parts.link)) {
    return absl::InvalidArgumentError(absl::StrCat("link: ", LinkName(parts.link), " needs at least two outputs"));
  }
  if (absl::Status status = CheckLabels(parts); !status.ok()) return status;

  std::memset(parts.weights.data() + count * size, 0, parts.outputs * size);
  const Scan scan = ScanWeights(parts.weight_type, parts.weights.data(), count);
  if (!scan.finite) {
    return absl::InvalidArgumentError(absl::StrCat("weight: of feature ", scan.position / parts.outputs, ", output ",
                                                   scan.position % parts.outputs, ", is not finite"));
  }
  std::vector<double> scale(parts.outputs, 1.0);
  std::copy(parts.scale.begin(), parts.scale.end(), scale.begin());

  auto model = std::shared_ptr<Model>(new Model(std::move(parts)));
  model->scale_ = std::move(scale);
  model->max_weight_ = scan.max;
  return model;
}

bool Model::has_probabilities() const {
  return link() == Link::kSigmoid || link() == Link::kSoftmax || link() == Link::kOneVsRest;
}

}  // namespace widelane
