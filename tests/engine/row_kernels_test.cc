// The row kernels of every instruction set give the bits of sums written down term by term.

#include "cpu/row_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cpu/cpu_features.h"
#include "numeric.h"
#include "widelane/engine/model.h"
#include "widelane/engine/route.h"

namespace widelane::cpu {
namespace {

using Generator = std::mt19937_64;

struct Case {
  WeightType type = WeightType::kFloat32;
  uint64_t features = 500;
  uint32_t outputs = 1;
  Link link = Link::kSigmoid;
  bool narrow = true;
  Values values = Values::kOnes;
  double low = -3;  // exponents of weights and values
  double high = 3;
  uint32_t best = 0;
  std::vector<uint32_t> lengths;
};

float Wild(Generator& random, const Case& about) {
  std::uniform_real_distribution<double> sign(-1, 1);
  std::uniform_real_distribution<double> exponent(about.low, about.high);
  return static_cast<float>(sign(random) * std::exp2(exponent(random)));
}

uint16_t FiniteHalf(Generator& random) { return static_cast<uint16_t>(random() & 0xBBFF); }

// A model and a batch, with what comes out by the book.
class Sample {
 public:
  Sample(const Case& about, Generator& random) : about_(about) {
    MakeWeights(random);
    MakeRows(random);
    for (uint32_t row = 0; row < about_.lengths.size(); ++row) ScoreByTheBook(row);
  }

  void ExpectSameBits(const RowKernels& kernels, bool prefetch) const {
    KernelModel model{weights_.data(), bias_.data(), scale_.data(), max_weight_,
                      about_.outputs,  about_.type,  about_.link,   prefetch};
    const size_t size = ScratchSize(about_.outputs);
    std::vector<uint64_t> sums(size);
    std::vector<double> scratch_raw(size);
    std::vector<double> shares(size);
    std::vector<double> raw(raw_.size(), -1);
    std::vector<float> scores(scores_.size(), -1);
    std::vector<uint32_t> best(best_.size(), 9999);
    std::vector<float> best_scores(best_.size(), -1);
    BatchView view = View();
    if (about_.best == 0) {
      view.raw = raw.data();
      view.scores = scores.data();
    } else {
      view.best_outputs = best.data();
      view.best_scores = best_scores.data();
    }
    // In two parts, which meet anywhere.
    const uint32_t half = view.rows / 3;
    const KernelScratch scratch{sums.data(), scratch_raw.data(), shares.data()};
    kernels.score_rows(model, view, 0, half, scratch);
    kernels.score_rows(model, view, half, view.rows - half, scratch);
    if (about_.best == 0) {
      EXPECT_EQ(std::memcmp(raw.data(), raw_.data(), raw.size() * sizeof(double)), 0) << kernels.name;
      EXPECT_EQ(std::memcmp(scores.data(), scores_.data(), scores.size() * sizeof(float)), 0) << kernels.name;
    } else {
      EXPECT_EQ(best, best_) << kernels.name;
      EXPECT_EQ(std::memcmp(best_scores.data(), best_scores_.data(), best.size() * sizeof(float)), 0) << kernels.name;
    }
  }

 private:
  // Bytes to the next multiple of four: what kernels may read.
  void MakeWeights(Generator& random) {
    const size_t count = (about_.features + 1) * about_.outputs;
    const size_t size = WeightSize(about_.type);
    weights_.resize((count * size + 3) / 4 * 4);
    exact_.resize(count);
    for (size_t i = 0; i < about_.features * about_.outputs; ++i) {
      const float weight = Wild(random, about_);
      const auto upper = static_cast<uint16_t>(numeric::FloatBitsOf(weight) >> 16);
      const uint16_t half = FiniteHalf(random);
      const auto byte = static_cast<int8_t>(random());
      const void* stored = &weight;
      exact_[i] = weight;
      if (about_.type == WeightType::kFloat16) stored = &half, exact_[i] = numeric::FromFloat16(half);
      if (about_.type == WeightType::kBfloat16) stored = &upper, exact_[i] = numeric::FromBfloat16(upper);
      if (about_.type == WeightType::kInt8) stored = &byte, exact_[i] = byte;
      std::memcpy(weights_.data() + i * size, stored, size);
      max_weight_ = std::max(max_weight_, std::abs(exact_[i]));
    }
    for (uint32_t k = 0; k < about_.outputs; ++k) {
      bias_.push_back(k % 3 == 0 ? 0 : Wild(random, about_));
      scale_.push_back(about_.type == WeightType::kInt8 ? 0.25F + static_cast<float>(k % 7) : 1);
    }
  }

  void MakeRows(Generator& random) {
    begin_.push_back(0);
    for (const uint32_t length : about_.lengths) {
      float largest = 0;
      for (uint32_t i = 0; i < length; ++i) {
        indices32_.push_back(static_cast<uint32_t>(random() % (about_.features + 1)));
        halves_.push_back(FiniteHalf(random));
        floats_.push_back(about_.values == Values::kFloat16 ? numeric::FromFloat16(halves_.back())
                                                            : Wild(random, about_));
        largest = std::max(largest, std::abs(floats_.back()));
      }
      begin_.push_back(static_cast<uint32_t>(indices32_.size()));
      row_max_.push_back(largest);
    }
    indices16_.assign(indices32_.begin(), indices32_.end());
  }

  BatchView View() const {
    BatchView view;
    view.rows = static_cast<uint32_t>(about_.lengths.size());
    view.entries = begin_.back();
    view.row_begin = begin_.data();
    if (about_.narrow) view.indices16 = indices16_.data();
    if (!about_.narrow) view.indices32 = indices32_.data();
    if (about_.values == Values::kFloat16) view.values16 = halves_.data();
    if (about_.values == Values::kFloat32) view.values32 = floats_.data();
    if (about_.values != Values::kOnes) view.row_max = row_max_.data();
    view.best = about_.best;
    return view;
  }

  void ScoreByTheBook(uint32_t row) {
    const bool ones = about_.values == Values::kOnes;
    const numeric::Grid grid = numeric::GridFor(max_weight_, ones ? 1.0F : row_max_[row]);
    std::vector<double> raw;
    for (uint32_t k = 0; k < about_.outputs; ++k) {
      int64_t sum = 0;
      for (uint32_t i = begin_[row]; i < begin_[row + 1]; ++i) {
        const double value = ones ? 1.0 : floats_[i];
        sum += numeric::Term(exact_[uint64_t{indices32_[i]} * about_.outputs + k], value * grid.inverse_step);
      }
      raw.push_back(numeric::RawSum(sum, grid.step, scale_[k], bias_[k]));
    }
    const std::vector<float> scores = Scores(raw);
    raw_.insert(raw_.end(), raw.begin(), raw.end());
    scores_.insert(scores_.end(), scores.begin(), scores.end());
    std::vector<uint32_t> order(about_.outputs);
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return raw[a] > raw[b]; });
    for (uint32_t j = 0; j < about_.best; ++j) {
      best_.push_back(order[j]);
      best_scores_.push_back(scores[order[j]]);
    }
  }

  std::vector<float> Scores(const std::vector<double>& raw) const {
    std::vector<float> scores;
    const double max = *std::max_element(raw.begin(), raw.end());
    int64_t total = 0;
    for (const double x : raw) total += numeric::ShareSteps(numeric::Share(about_.link, x, max));
    for (const double x : raw) {
      scores.push_back(static_cast<float>(numeric::IsPointwise(about_.link)
                                              ? numeric::PointwiseLink(about_.link, x)
                                              : numeric::Normalised(numeric::Share(about_.link, x, max), total)));
    }
    return scores;
  }

  const Case about_;
  std::vector<std::byte> weights_;
  std::vector<double> exact_;
  std::vector<double> bias_;
  std::vector<double> scale_;
  double max_weight_ = 0;
  std::vector<uint32_t> begin_;
  std::vector<uint16_t> indices16_;
  std::vector<uint32_t> indices32_;
  std::vector<uint16_t> halves_;
  std::vector<float> floats_;
  std::vector<float> row_max_;
  std::vector<double> raw_;
  std::vector<float> scores_;
  std::vector<uint32_t> best_;
  std::vector<float> best_scores_;
};

constexpr WeightType kTypes[] = {WeightType::kFloat32, WeightType::kFloat16, WeightType::kBfloat16, WeightType::kInt8};
constexpr Values kValueKinds[] = {Values::kOnes, Values::kFloat16, Values::kFloat32};

class RowKernelsTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    const absl::StatusOr<RowKernels> kernels = ChooseRowKernels(GetParam());
    if (!kernels.ok()) GTEST_SKIP() << kernels.status();
    kernels_ = *kernels;
  }

  // Every weight type, width of indices and kind of values.
  void ExpectByTheBook(Case about) {
    for (const WeightType type : kTypes) {
      for (const Values values : kValueKinds) {
        for (const bool narrow : {true, false}) {
          about.type = type;
          about.values = values;
          about.narrow = narrow;
          SCOPED_TRACE(std::string(WeightTypeName(type)) + ", " + kValuesNames[static_cast<size_t>(values)] +
                       (narrow ? ", 16" : ", 32") + " bits, " + std::to_string(about.outputs) + " outputs, " +
                       LinkName(about.link));
          const Sample sample(about, random_);
          for (const bool prefetch : {false, true}) sample.ExpectSameBits(kernels_, prefetch);
          if (HasFailure()) return;
        }
      }
    }
  }

  RowKernels kernels_{};
  Generator random_{42};
};

std::string NameOf(const ::testing::TestParamInfo<InstructionSet>& set) {
  const char* const names[] = {"best", "plain", "avx2", "avx512"};
  return names[static_cast<size_t>(set.param)];
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, RowKernelsTest,
                         ::testing::Values(InstructionSet::kPlain, InstructionSet::kAvx2, InstructionSet::kAvx512),
                         NameOf);

TEST_P(RowKernelsTest, RowsOfEveryLength) {
  Case about;
  for (uint32_t length = 0; length <= 700; length += length < 70 ? 1 : 37) about.lengths.push_back(length);
  std::shuffle(about.lengths.begin(), about.lengths.end(), random_);
  ExpectByTheBook(about);
  about.outputs = 3;
  ExpectByTheBook(about);
}

TEST_P(RowKernelsTest, AVeryLongRow) {
  ExpectByTheBook({.lengths = {3, 100'000, 5}});
  ExpectByTheBook({.outputs = 2, .lengths = {100'000}});
}

TEST_P(RowKernelsTest, EveryLinkAndWidth) {
  for (const uint32_t outputs : {1U, 2U, 5U, 8U, 9U, 31U, 33U, 64U, 100U, 2100U}) {
    for (const Link link : {Link::kIdentity, Link::kExp, Link::kSoftmax, Link::kOneVsRest}) {
      if (outputs == 1 && !numeric::IsPointwise(link)) continue;
      const std::vector<uint32_t> lengths =
          outputs > 100 ? std::vector<uint32_t>{7, 0, 130} : std::vector<uint32_t>{0, 1, 4, 9, 40, 0, 129, 3};
      ExpectByTheBook({.features = 40, .outputs = outputs, .link = link, .lengths = lengths});
    }
  }
}

TEST_P(RowKernelsTest, TheEndsOfFloat) {
  const std::vector<uint32_t> lengths = {0, 1, 2, 9, 40, 300, 8};
  for (const uint32_t outputs : {1U, 4U}) {
    ExpectByTheBook({.outputs = outputs, .low = -149, .high = -120, .lengths = lengths});  // subnormal
    ExpectByTheBook({.outputs = outputs, .low = 59, .high = 61, .lengths = lengths});
    ExpectByTheBook({.outputs = outputs, .low = 120, .high = 127.9, .lengths = lengths});
    ExpectByTheBook({.outputs = outputs, .low = -149, .high = 127.9, .lengths = lengths});
  }
}

TEST_P(RowKernelsTest, TheBestOutputs) {
  for (const uint32_t outputs : {1U, 2U, 10U, 128U, 1000U}) {
    for (const uint32_t best : {1U, 2U, 10U, 128U}) {
      if (best > outputs) continue;
      for (const Link link : {Link::kSigmoid, Link::kSoftmax, Link::kOneVsRest}) {
        if (outputs == 1 && !numeric::IsPointwise(link)) continue;
        // Short rows of few features: many outputs are equal, with int8 above all.
        ExpectByTheBook(
            {.features = 4, .outputs = outputs, .link = link, .best = best, .lengths = {0, 1, 2, 3, 40, 0, 5}});
      }
    }
  }
}

}  // namespace
}  // namespace widelane::cpu
