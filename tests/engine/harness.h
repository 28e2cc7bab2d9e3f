// What the engine's tests share: models, rows as CSR arrays, and one batch from rows to scores.

#ifndef WIDELANE_TESTS_ENGINE_HARNESS_H_
#define WIDELANE_TESTS_ENGINE_HARNESS_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "tests/support/reference.h"
#include "widelane/engine/csr.h"
#include "widelane/engine/engine.h"
#include "widelane/engine/model.h"

// Whether a sanitizer slows the tests down.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WIDELANE_SANITIZED 1
#else
#define WIDELANE_SANITIZED 0
#endif

namespace widelane::test {

// Sizes and repetitions are divided by this, so that sanitized runs end in time.
inline constexpr int kShrink = WIDELANE_SANITIZED ? 8 : 1;

using Random = std::mt19937_64;

// Uniform in [low, high].
int64_t Between(Random& random, int64_t low, int64_t high);
// Magnitudes spread evenly over the exponents from 10^low to 10^high, either sign.
float Wild(Random& random, double low, double high);

// A float32 model from weights in feature-major order.
std::shared_ptr<const Model> MakeModel(uint32_t outputs, const std::vector<float>& weights, std::vector<double> bias,
                                       Link link);
// Binary logistic, w = [0.5, -1.25, 2, 0.25], intercept -0.75, labels "0" and "1".
std::shared_ptr<const Model> R4(UnknownFeatures unknown_features = UnknownFeatures::kRefuse);

struct ModelSpec {
  uint64_t features = 100;
  uint32_t outputs = 1;
  WeightType type = WeightType::kFloat32;
  Link link = Link::kIdentity;
  UnknownFeatures unknown_features = UnknownFeatures::kRefuse;
  // Weights are of magnitude 10^low to 10^high (as far as the type has them).
  double low = -2;
  double high = 0;
  bool bias = true;
};
std::string Describe(const ModelSpec& spec);
ModelParts RandomParts(const ModelSpec& spec, Random& random);
std::shared_ptr<const Model> RandomModel(const ModelSpec& spec, Random& random);

struct RowSpec {
  uint64_t features = 100;
  int64_t shortest = 0;
  int64_t longest = 40;
  bool has_values = true;
  double low = -2;
  double high = 1;
};
// Features in any order, some repeated; values of 0 and -0 among them.
Row RandomRow(const RowSpec& spec, Random& random);
std::vector<Row> RandomRows(size_t count, const RowSpec& spec, Random& random);

// The arrays of some rows, all with values or all without, and a view of them.
class CsrArrays {
 public:
  CsrArrays(const std::vector<Row>& rows, bool has_values);
  CsrArrays(const CsrArrays&) = delete;
  CsrArrays& operator=(const CsrArrays&) = delete;
  CsrView view() const;

 private:
  std::vector<uint32_t> indptr_;
  std::vector<uint32_t> indices_;
  std::vector<float> values_;
  bool has_values_;
};

// Takes one batch at a time.
class BatchWaiter : public BatchListener {
 public:
  void OnBatchDone(SlabHandle slab) override;
  // Blocks until the batch is done, 60 s at most (null then).
  SlabHandle Wait();
  int calls() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable done_;
  SlabHandle slab_;
  int calls_ = 0;
};

// Results of `rows` rows of a finished batch.
std::vector<RowScore> ReadScores(const Slab& slab, uint32_t rows);

// Packs the rows as up to three segments of one batch, scores it and reads the results.
absl::StatusOr<std::vector<RowScore>> ScoreBatch(Engine& engine, const std::shared_ptr<const LoadedModel>& model,
                                                 const std::vector<Row>& rows, bool has_values,
                                                 Where where = Where::kEngineThreads);

// Fails the test at the first row whose bits differ.
void ExpectSameBits(const std::vector<RowScore>& expected, const std::vector<RowScore>& actual);

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_ENGINE_HARNESS_H_
