#include "tests/support/models.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/support/check.h"
#include "widelane/engine/model_file.h"

namespace widelane::test {

std::shared_ptr<const Model> MakeModel(const ModelSpec& spec) {
  ModelParts parts;
  parts.features = spec.features;
  parts.outputs = spec.outputs;
  parts.weights = Must(ModelParts::AllocateWeights(spec.features, spec.outputs, WeightType::kFloat32));
  Require(spec.weights.size() == spec.features * spec.outputs, "weights are [features][outputs]");
  std::memcpy(parts.weights.data(), spec.weights.data(), spec.weights.size() * sizeof(float));
  parts.bias = spec.bias;
  parts.link = spec.link;
  parts.labels = spec.labels;
  parts.unknown_features = spec.unknown_features;
  parts.tie = spec.tie;
  parts.source = "test";
  return Must(Model::Create(std::move(parts)));
}

std::shared_ptr<const Model> R4() {
  return MakeModel({.features = 4,
                    .weights = {0.5f, -1.25f, 2.0f, 0.25f},
                    .bias = {-0.75},
                    .link = Link::kSigmoid,
                    .labels = {"0", "1"}});
}

std::shared_ptr<const Model> L3() {
  return MakeModel({.features = 3,
                    .weights = {0.5f, -1.25f, 2.0f},
                    .bias = {-0.25},
                    .link = Link::kSigmoid,
                    .labels = {"1", "0"},
                    .unknown_features = UnknownFeatures::kIgnore});
}

std::shared_ptr<const Model> Id1() { return MakeModel({.features = 1, .weights = {1.0f}}); }

std::string L3Text(const std::string& bias, const std::string& solver) {
  const std::string features = bias == "-1" ? "4" : "3";
  return "solver_type " + solver + "\nnr_class 2\nlabel 0 1\nnr_feature " + features + "\nbias " + bias +
         "\nw\n0.5 \n-1.25 \n2 \n-0.25 \n";
}

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "widelane-test-XXXXXX").string();
  Require(::mkdtemp(pattern.data()) != nullptr, "a temporary folder");
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::Write(const std::string& name, const std::string& content) const {
  const std::filesystem::path path = std::filesystem::path(path_) / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
  return path.string();
}

std::string TempDir::Write(const std::string& name, const Model& model) const {
  const std::filesystem::path path = std::filesystem::path(path_) / name;
  std::filesystem::create_directories(path.parent_path());
  Require(WriteModelFile(model, path.string()));
  return path.string();
}

}  // namespace widelane::test
