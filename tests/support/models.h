// The models the tests speak of, and model files made of them.

#ifndef WIDELANE_TESTS_SUPPORT_MODELS_H_
#define WIDELANE_TESTS_SUPPORT_MODELS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "widelane/engine/model.h"

namespace widelane::test {

struct ModelSpec {
  uint64_t features = 0;
  uint32_t outputs = 1;
  std::vector<float> weights = {};  // feature-major, [features][outputs]
  std::vector<double> bias = {};    // empty: zeros
  Link link = Link::kIdentity;
  std::vector<std::string> labels = {};
  UnknownFeatures unknown_features = UnknownFeatures::kRefuse;
  Tie tie = Tie::kNegative;
};

// A float32 model; stops the program if there can be none.
std::shared_ptr<const Model> MakeModel(const ModelSpec& spec);

// Binary logistic: w = 0.5, -1.25, 2, 0.25, bias -0.75, labels 0 and 1, the second positive.
std::shared_ptr<const Model> R4();
// As imported from the liblinear file of L3Text(): w = 0.5, -1.25, 2, bias -0.25, a positive sum means label 0.
std::shared_ptr<const Model> L3();
// One feature of weight 1, identity: answers the value that was sent.
std::shared_ptr<const Model> Id1();

// The liblinear file L3 is made of, with another solver or `bias` line if wanted.
std::string L3Text(const std::string& bias = "1", const std::string& solver = "L2R_LR");

// A folder that goes with its content.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  // Writes a file, with the folders above it, and returns its path.
  std::string Write(const std::string& name, const std::string& content) const;
  std::string Write(const std::string& name, const Model& model) const;

 private:
  std::string path_;
};

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_MODELS_H_
