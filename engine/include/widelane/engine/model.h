// A sparse linear model in host memory: weights, bias, link and the rules its source tool gave it.
//
//   raw[k]   = bias[k] + scale[k] * sum over entries (i, v) of weight[i][k] * v
//   score[k] = link(raw)[k]
//
// A Model never changes after Create, so any number of threads may read it.

#ifndef WIDELANE_ENGINE_MODEL_H_
#define WIDELANE_ENGINE_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "widelane/engine/aligned_buffer.h"
#include "widelane/engine/model_types.h"

namespace widelane {

// What happens to a feature the model does not have.
enum class UnknownFeatures : uint8_t {
  kRefuse,  // the request fails, naming row and position
  kIgnore,  // the entry counts nothing (liblinear's rule) and is counted; a negative one is refused
};

// Which label a one-output model gives a row whose raw sum is exactly 0. Several outputs: the lowest of the largest.
enum class Tie : uint8_t {
  kNegative,  // labels[0], as liblinear, scikit-learn and ONNX Runtime do (raw > 0 is positive)
  kPositive,  // labels[1] (raw >= 0 is positive)
};

size_t WeightSize(WeightType type);
const char* WeightTypeName(WeightType type);  // "float32", ...
const char* LinkName(Link link);              // "identity", "sigmoid", "softmax", "one_vs_rest", "exp"

// What a model is made of.
struct ModelParts {
  uint64_t features = 0;
  uint32_t outputs = 1;
  WeightType weight_type = WeightType::kFloat32;
  // Feature-major: weight of feature i for output k at i * outputs + k. Holds (features + 1) * outputs elements: one
  // more feature, whose weights Create sets to zero. Unknown features and rows that failed are sent there.
  AlignedBuffer weights;
  std::vector<double> bias;  // [outputs]; empty: zeros
  std::vector<float> scale;  // [outputs] for kInt8, else empty
  Link link = Link::kIdentity;
  // One output: none, or two, {negative, positive}. Several outputs: none, or one for each.
  std::vector<std::string> labels;
  UnknownFeatures unknown_features = UnknownFeatures::kRefuse;
  Tie tie = Tie::kNegative;
  std::string source;  // the tool and solver the model came from, for people
  std::string digest;  // of the file it was read from: "sha256:...", or empty

  // A buffer for `features` x `outputs` weights of `type`, with room for the zero feature; not filled.
  // Errors: INVALID_ARGUMENT when the product overflows or passes a limit, RESOURCE_EXHAUSTED without memory.
  static absl::StatusOr<AlignedBuffer> AllocateWeights(uint64_t features, uint64_t outputs, WeightType type);
};

class Model {
 public:
  static constexpr uint64_t kMaxFeatures = 0xFFFFFFFEu;             // 32-bit indices, one kept for the zero feature
  static constexpr uint64_t kMaxOutputs = (uint64_t{1} << 24) - 1;  // sums over outputs stay in 64 bits

  // Errors: INVALID_ARGUMENT for sizes that disagree, a weight, bias or scale that is not finite (naming it), labels
  // that do not fit the outputs, softmax or one-vs-rest with one output.
  static absl::StatusOr<std::shared_ptr<const Model>> Create(ModelParts parts);

  uint64_t features() const { return parts_.features; }
  uint32_t outputs() const { return parts_.outputs; }
  WeightType weight_type() const { return parts_.weight_type; }
  const std::byte* weights() const { return parts_.weights.data(); }
  size_t weight_bytes() const { return parts_.weights.size(); }
  const std::vector<double>& bias() const { return parts_.bias; }  // [outputs]
  const std::vector<double>& scale() const { return scale_; }      // [outputs], ones unless int8
  Link link() const { return parts_.link; }
  const std::vector<std::string>& labels() const { return parts_.labels; }
  UnknownFeatures unknown_features() const { return parts_.unknown_features; }
  Tie tie() const { return parts_.tie; }
  const std::string& source() const { return parts_.source; }
  const std::string& digest() const { return parts_.digest; }

  // Largest |weight| over all features and outputs (of the stored numbers, before `scale`); the grid follows it.
  double max_weight() const { return max_weight_; }
  // Whether scores are probabilities.
  bool has_probabilities() const;
  // Whether 16 bits hold every index, the zero feature's included.
  bool narrow_indices() const { return parts_.features <= 0xFFFF; }
  // Index of the feature whose weights are all zero.
  uint32_t zero_feature() const { return static_cast<uint32_t>(parts_.features); }

 private:
  explicit Model(ModelParts parts) : parts_(std::move(parts)) {}

  ModelParts parts_;
  std::vector<double> scale_;
  double max_weight_ = 0;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_MODEL_H_
