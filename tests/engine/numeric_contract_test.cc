// Equality of bits between the reference scorer and every backend: any type, any link, any order, any cut.
//
// `--gtest_filter=*Gpu*` runs the GPU's part; each test is skipped by name where a backend is missing.

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends_under_test.h"
#include "harness.h"
#include "numeric.h"
#include "tests/support/reference.h"

namespace widelane::test {
namespace {

constexpr WeightType kWeightTypes[] = {WeightType::kFloat32, WeightType::kFloat16, WeightType::kBfloat16,
                                       WeightType::kInt8};
constexpr Link kLinks[] = {Link::kIdentity, Link::kSigmoid, Link::kSoftmax, Link::kOneVsRest, Link::kExp};

class NumericContract : public EveryBackend {
 protected:
  // Rows in another order of entries.
  static std::vector<Row> Shuffled(const std::vector<Row>& rows, Random& random) {
    std::vector<Row> shuffled;
    for (const Row& row : rows) {
      std::vector<size_t> order(row.features.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::shuffle(order.begin(), order.end(), random);
      Row other;
      for (const size_t i : order) {
        other.features.push_back(row.features[i]);
        if (!row.values.empty()) other.values.push_back(row.values[i]);
      }
      shuffled.push_back(std::move(other));
    }
    return shuffled;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, NumericContract, ::testing::ValuesIn(AllBackends()),
                         [](const auto& backend) { return backend.param.name; });

TEST_P(NumericContract, HoldsForEveryWeightTypeLinkAndWidth) {
  Random random(11);
  for (const WeightType type : kWeightTypes) {
    for (const uint32_t outputs : {1U, 2U, 3U, 17U, 64U, 1000U}) {
      for (const Link link : kLinks) {
        if (outputs == 1 && (link == Link::kSoftmax || link == Link::kOneVsRest)) continue;
        if (outputs == 1000 && (link == Link::kIdentity || link == Link::kExp)) continue;  // as with 64, and slow
        const ModelSpec spec{.features = 97, .outputs = outputs, .type = type, .link = link};
        SCOPED_TRACE(Describe(spec));
        const auto model = RandomModel(spec, random);
        const size_t rows = outputs == 1000 ? 7 : 33;
        for (const bool has_values : {false, true}) {
          ExpectReference(model, RandomRows(rows, {.features = 97, .longest = 30, .has_values = has_values}, random),
                          has_values);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(NumericContract, HoldsForWildMagnitudes) {
  for (uint64_t seed = 0; seed < 40 / kShrink; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    const WeightType type = kWeightTypes[seed % 4];
    const uint32_t outputs = seed % 3 == 0 ? 5 : 1;
    // Down into the subnormals and up to the largest.
    const double low = seed % 2 == 0 ? -44.5 : -30;
    const double high = seed % 2 == 0 ? 38.4 : 30;
    const ModelSpec spec{.features = 50, .outputs = outputs, .type = type, .low = low, .high = high};
    SCOPED_TRACE(Describe(spec));
    ExpectReference(RandomModel(spec, random), RandomRows(50, {.features = 50, .low = low, .high = high}, random),
                    true);
    if (HasFatalFailure()) return;
  }
}

TEST_P(NumericContract, HoldsAtTheEndsOfFloat) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const std::vector<float> ends = {FLT_MAX, -FLT_MAX, tiny, -tiny, FLT_MIN, 1.0F, 0.0F, -0.0F};
  std::vector<Row> rows;
  for (uint32_t i = 0; i < ends.size(); ++i) {
    for (const float value : ends) {
      rows.push_back({{i}, {value}});
      rows.push_back({{i, i, 5}, {value, value, 1.0F}});
    }
  }
  ExpectReference(MakeModel(1, ends, {0.5}, Link::kIdentity), rows, true);
  ExpectReference(MakeModel(1, {tiny, -tiny, 0, 0, 0, 0, 0, 0}, {0}, Link::kIdentity), rows, true);
  ExpectReference(MakeModel(1, std::vector<float>(8, 0.0F), {-0.0}, Link::kSigmoid), rows, true);
}

TEST_P(NumericContract, RowsInAnyOrderGiveTheSameBits) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(100 + seed);
    const uint32_t outputs = seed % 2 == 0 ? 1 : 19;
    const auto model =
        Load(RandomModel({.features = 300, .outputs = outputs, .link = Link::kSigmoid, .low = -8, .high = 8}, random));
    const bool has_values = seed % 3 != 0;
    const auto rows =
        RandomRows(60, {.features = 300, .longest = 500, .has_values = has_values, .low = -8, .high = 8}, random);
    const auto scores = Score(model, rows, has_values);
    ExpectSameBits(scores, Score(model, Shuffled(rows, random), has_values));
    ExpectSameBits(ReferenceScores(model->model(), rows), scores);
    if (HasFatalFailure()) return;
  }
}

TEST_P(NumericContract, DuplicatesAddUp) {
  const auto model = Load(R4());
  const std::vector<Row> rows = {{{2, 0, 2}, {1.5F, 2.0F, 0.5F}},
                                 {{3, 0, 1}, {4.0F, 1.0F, 2.0F}},
                                 {std::vector<uint32_t>(1000, 2), std::vector<float>(1000, 0.001F)}};
  const auto scores = Score(model, rows, true);
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_EQ(scores[0].raw[0], 4.25);
  EXPECT_NEAR(scores[0].scores[0], 0.985936, 1e-6);
  EXPECT_EQ(scores[1].raw[0], -1.75);
  EXPECT_NEAR(scores[1].scores[0], 0.148047, 1e-6);
  EXPECT_NEAR(scores[2].raw[0], -0.75 + 1000 * 2.0 * 0.001, 1e-6);
  ExpectSameBits(ReferenceScores(model->model(), rows), scores);
}

TEST_P(NumericContract, EmptyRowsScoreTheBias) {
  const auto model = Load(R4());
  const std::vector<Row> last_empty = {{{2}, {3.0F}}, {}, {}};
  auto scores = Score(model, last_empty, true);
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_NEAR(scores[0].scores[0], 0.994779874, 1e-7);
  for (const size_t r : {1, 2}) {
    EXPECT_NEAR(scores[r].scores[0], 0.320821301, 1e-7);
    EXPECT_EQ(scores[r].raw[0], -0.75);
  }

  // Nothing of an earlier batch may show through.
  const std::vector<Row> same(3, Row{{2}, {3.0F}});
  for (const auto& score : Score(model, same, true)) EXPECT_NEAR(score.scores[0], 0.994779874, 1e-7);
  for (const bool has_values : {true, false}) {
    scores = Score(model, std::vector<Row>(3), has_values);
    ASSERT_EQ(scores.size(), 3U);
    for (const auto& score : scores) EXPECT_NEAR(score.scores[0], 0.320821301, 1e-7);
  }

  const auto unbiased = Load(MakeModel(1, {0.5F}, {}, Link::kSigmoid));
  EXPECT_EQ(Score(unbiased, {Row{}}, false).at(0).scores[0], 0.5F);
}

TEST_P(NumericContract, AllEmptyBatchesAreNeverStaleWithManyOutputs) {
  Random random(5);
  const auto model = Load(RandomModel({.features = 20, .outputs = 33, .link = Link::kSoftmax}, random));
  Score(model, RandomRows(100, {.features = 20, .shortest = 5}, random), true);
  const std::vector<Row> empty(100);
  ExpectSameBits(ReferenceScores(model->model(), empty), Score(model, empty, true));
}

TEST_P(NumericContract, NoRowsAreFine) {
  EXPECT_TRUE(Score(Load(R4()), {}, true).empty());
  EXPECT_TRUE(Score(Load(R4()), {}, false).empty());
}

TEST_P(NumericContract, LastRowsAreNotLostWhenEmpty) {
  Random random(6);
  const auto model = Load(R4());
  std::vector<Row> rows = RandomRows(32'768, {.features = 4, .shortest = 0, .longest = 3, .has_values = false}, random);
  std::fill(rows.end() - 7, rows.end(), Row{});
  ExpectSameBits(ReferenceScores(model->model(), rows), Score(model, rows, false));
}

TEST_P(NumericContract, ABatchNeverChangesARow) {
  for (const uint32_t outputs : {1U, 3U, 40U}) {
    SCOPED_TRACE(absl::StrCat(outputs, " outputs"));
    Random random(20 + outputs);
    const auto model = Load(
        RandomModel({.features = 1000, .outputs = outputs, .link = Link::kIdentity, .low = -6, .high = 6}, random));
    const Row row = RandomRow({.features = 1000, .shortest = 700, .longest = 900, .low = -6, .high = 6}, random);
    const auto alone = Score(model, {row}, true);
    ExpectSameBits({ReferenceScore(model->model(), row)}, alone);
    for (const size_t neighbours : {1, 2, 31, 32, 33, 1000}) {
      auto rows = RandomRows(neighbours, {.features = 1000, .longest = 60, .low = -30, .high = 30}, random);
      const auto place = static_cast<size_t>(Between(random, 0, static_cast<int64_t>(neighbours)));
      rows.insert(rows.begin() + static_cast<ptrdiff_t>(place), row);
      const auto among = Score(model, rows, true);
      ASSERT_EQ(among.size(), rows.size());
      ExpectSameBits(alone, {among[place]});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(NumericContract, PartsOfARowAddUpExactly) {
  // Feature 0 weighs nothing and brings the row's largest value to every part, so that all parts have the row's grid.
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(30 + seed);
    std::vector<float> weights = {0.0F};
    while (weights.size() < 2000) weights.push_back(Wild(random, -5, 5));
    const auto model = Load(MakeModel(1, weights, {}, Link::kIdentity));
    Row whole = RandomRow({.features = 2000, .shortest = 5000, .longest = 6000, .low = -5, .high = 5}, random);
    const float largest = 2e5F;
    whole.features.push_back(0);
    whole.values.push_back(largest);
    std::vector<Row> rows = {whole};
    for (size_t begin = 0; begin < whole.features.size();) {
      const size_t end = std::min(whole.features.size(), begin + static_cast<size_t>(Between(random, 1, 1500)));
      Row part;
      part.features.assign(whole.features.begin() + static_cast<ptrdiff_t>(begin),
                           whole.features.begin() + static_cast<ptrdiff_t>(end));
      part.values.assign(whole.values.begin() + static_cast<ptrdiff_t>(begin),
                         whole.values.begin() + static_cast<ptrdiff_t>(end));
      part.features.push_back(0);
      part.values.push_back(largest);
      rows.push_back(std::move(part));
      begin = end;
    }
    const auto scores = Score(model, rows, true);
    ASSERT_EQ(scores.size(), rows.size());
    const double step = GridStep(model->model(), largest);
    int64_t sum = 0;
    for (size_t r = 1; r < rows.size(); ++r) sum += static_cast<int64_t>(scores[r].raw[0] / step);
    EXPECT_EQ(sum, static_cast<int64_t>(scores[0].raw[0] / step));
    EXPECT_EQ(sum, ReferenceSteps(model->model(), whole, 0));
  }
}

TEST_P(NumericContract, OneHugeRowAmongShortOnes) {
  constexpr uint32_t kFeatures = 1'000'000;
  UseSlabs({.rows = 4096, .entries = 1'100'000, .results = 4096});
  if (engine_ == nullptr) return;
  const auto model = Load(MakeModel(1, std::vector<float>(kFeatures, 0.1F), {-100000.0}, Link::kSigmoid));
  Row huge;
  huge.features.resize(kFeatures);
  std::iota(huge.features.begin(), huge.features.end(), 0U);
  Random random(7);
  std::vector<Row> rows =
      RandomRows(4095, {.features = kFeatures, .shortest = 10, .longest = 10, .has_values = false}, random);
  rows.insert(rows.begin() + 2000, huge);
  for (const bool has_values : {false, true}) {
    const auto scores = Score(model, rows, has_values);
    ASSERT_EQ(scores.size(), rows.size());
    EXPECT_NEAR(scores[2000].raw[0], 0.00149012, 1e-8);
    EXPECT_NEAR(scores[2000].scores[0], 0.500373, 1e-6);
    ExpectSameBits(ReferenceScores(model->model(), rows), scores);
    ExpectSameBits({scores[2000]}, Score(model, {huge}, has_values));
  }
}

TEST_P(NumericContract, LongRowsOfEveryLengthAroundTheCuts) {
  Random random(8);
  for (const uint32_t outputs : {1U, 2U, 7U, 130U}) {
    SCOPED_TRACE(absl::StrCat(outputs, " outputs"));
    std::vector<Row> rows;
    for (const int64_t length : {1,    15,   16,   17,   31,   33,   127,  129,  255,  257,   1023,
                                 1024, 1025, 2049, 4095, 4096, 4097, 8191, 8192, 8193, 12289, 20000}) {
      if (outputs > 7 && length > 5000) continue;
      rows.push_back(RandomRow({.features = 5000, .shortest = length, .longest = length}, random));
      rows.push_back({});
    }
    std::shuffle(rows.begin(), rows.end(), random);
    ExpectReference(RandomModel({.features = 5000, .outputs = outputs}, random), rows, true);
    if (HasFatalFailure()) return;
  }
}

TEST_P(NumericContract, NarrowAndWideIndices) {
  for (const uint64_t features : {1, 65534, 65535, 65536, 65537, 200'000}) {
    SCOPED_TRACE(absl::StrCat(features, " features"));
    Random random(features);
    const auto model = RandomModel({.features = features}, random);
    std::vector<Row> rows = RandomRows(30, {.features = features, .has_values = false}, random);
    rows.push_back({{0, static_cast<uint32_t>(features - 1)}, {}});
    ExpectReference(model, rows, false);
    if (HasFatalFailure()) return;
  }
}

TEST_P(NumericContract, UnknownFeaturesCountNothing) {
  for (const uint64_t features : {100, 70'000}) {
    SCOPED_TRACE(absl::StrCat(features, " features"));
    Random random(features);
    for (const bool has_values : {false, true}) {
      const auto model =
          Load(RandomModel({.features = features, .outputs = 3, .unknown_features = UnknownFeatures::kIgnore}, random));
      // Half of these are outside the model; their values must not move the grid either.
      auto rows = RandomRows(80, {.features = 2 * features, .has_values = has_values, .low = -2, .high = 20}, random);
      rows.push_back({{static_cast<uint32_t>(features), 0xFFFFFFFFU},
                      has_values ? std::vector<float>{1, 2} : std::vector<float>{}});
      ExpectSameBits(ReferenceScores(model->model(), rows), Score(model, rows, has_values));
    }
  }
}

TEST_P(NumericContract, VoidedSegmentsHarmNobody) {
  Random random(9);
  for (const uint32_t outputs : {1U, 5U}) {
    for (const bool has_values : {false, true}) {
      const auto model = Load(RandomModel({.features = 60, .outputs = outputs}, random));
      SlabHandle slab = engine_->TakeSlab();
      slab->Open(model, {.values = has_values ? Values::kFloat32 : Values::kOnes});
      std::vector<Row> good;
      std::vector<uint32_t> places;
      for (int segment = 0; segment < 20; ++segment) {
        const bool bad = segment % 3 == 1;
        auto rows = RandomRows(static_cast<size_t>(Between(random, 1, 40)),
                               {.features = 60, .shortest = 1, .has_values = has_values}, random);
        if (bad) rows.back().features.back() = 60 + static_cast<uint32_t>(segment);
        const CsrArrays arrays(rows, has_values);
        const CsrView view = arrays.view();
        RowCursor cursor(view);
        const auto claimed = slab->Claim(rows.size(), view.indices.count, kWantScores | kWantRaw);
        ASSERT_TRUE(claimed.has_value());
        ASSERT_EQ(PackRows(view, cursor, *slab, *claimed).ok(), !bad);
        for (uint32_t r = 0; !bad && r < rows.size(); ++r) {
          good.push_back(rows[r]);
          places.push_back(claimed->first_row + r);
        }
      }
      slab->Seal();
      BatchWaiter waiter;
      engine_->Submit(std::move(slab), waiter, Where::kEngineThreads);
      slab = waiter.Wait();
      ASSERT_NE(slab, nullptr);
      ASSERT_TRUE(slab->status.ok()) << slab->status;
      const auto all = ReadScores(*slab, slab->rows());
      std::vector<RowScore> scores;
      scores.reserve(places.size());
      for (const uint32_t place : places) scores.push_back(all[place]);
      ExpectSameBits(ReferenceScores(model->model(), good), scores);
    }
  }
}

TEST_P(NumericContract, LargeBatchesAreCutWithoutATrace) {
  Random random(10);
  const auto model = Load(RandomModel({.features = 54'000, .link = Link::kSigmoid, .low = -3, .high = 1}, random));
  for (const bool has_values : {false, true}) {
    auto rows = RandomRows(20'000 / kShrink, {.features = 54'000, .longest = 30, .has_values = has_values}, random);
    for (const int64_t length : {9000, 70'000 / kShrink, 5000}) {
      const auto place = Between(random, 0, static_cast<int64_t>(rows.size()) - 1);
      rows[static_cast<size_t>(place)] =
          RandomRow({.features = 54'000, .shortest = length, .longest = length, .has_values = has_values}, random);
    }
    ExpectSameBits(ReferenceScores(model->model(), rows), Score(model, rows, has_values));
  }
}

TEST_P(NumericContract, LargeBatchesOfManyOutputsToo) {
  Random random(12);
  for (const uint32_t outputs : {2U, 4U, 31U, 32U, 129U, 1500U}) {
    SCOPED_TRACE(absl::StrCat(outputs, " outputs"));
    const auto model = Load(RandomModel({.features = 800, .outputs = outputs, .link = Link::kSoftmax}, random));
    const auto rows = RandomRows(60'000 / outputs / 4 / kShrink + 9, {.features = 800, .longest = 25}, random);
    ExpectSameBits(ReferenceScores(model->model(), rows), Score(model, rows, true));
    if (HasFatalFailure()) return;
  }
}

TEST_P(NumericContract, LinksStayFiniteAtTheExtremes) {
  for (const Link link : {Link::kSigmoid, Link::kSoftmax, Link::kOneVsRest}) {
    SCOPED_TRACE(LinkName(link));
    const auto model = Load(MakeModel(3, {1.0F, -1.0F, 0.5F}, {0.0, 1.0, -1.0}, link));
    std::vector<Row> rows;
    for (const float value : {0.0F, 1e-30F, 1.0F, 40.0F, 709.0F, 746.0F, 1e4F, 1e30F, FLT_MAX}) {
      rows.push_back({{0}, {value}});
      rows.push_back({{0}, {-value}});
    }
    const auto scores = Score(model, rows, true);
    ExpectSameBits(ReferenceScores(model->model(), rows), scores);
    for (const RowScore& score : scores) {
      for (const float share : score.scores) {
        EXPECT_TRUE(std::isfinite(share));
        EXPECT_GE(share, 0.0F);
        EXPECT_LE(share, 1.0F);
      }
      if (link == Link::kSigmoid) continue;
      EXPECT_NEAR(std::accumulate(score.scores.begin(), score.scores.end(), 0.0), 1.0, 1e-6);
    }
  }
}

TEST_P(NumericContract, LinksHaveTheirTextbookValues) {
  const auto softmax = Load(MakeModel(3, {1.0F, 0.5F, -2.0F}, {}, Link::kSoftmax));
  const auto rest = Load(MakeModel(3, {1.0F, 0.5F, -2.0F}, {}, Link::kOneVsRest));
  const auto exp = Load(MakeModel(3, {1.0F, 0.5F, -2.0F}, {}, Link::kExp));
  const std::vector<Row> one = {{{0}, {}}};
  const double right[][3] = {
      {0.603749, 0.366192, 0.030059}, {0.496400, 0.422659, 0.080941}, {2.718282, 1.648721, 0.135335}};
  const std::shared_ptr<const LoadedModel> models[] = {softmax, rest, exp};
  for (size_t m = 0; m < 3; ++m) {
    const auto scores = Score(models[m], one, false);
    ASSERT_EQ(scores.size(), 1U);
    for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(scores[0].scores[k], right[m][k], 1e-6) << m << " " << k;
  }
}

TEST_P(NumericContract, LiblinearsThreeClasses) {
  // label 2 0 1, bias 1; one-vs-rest.
  const auto model = Load(MakeModel(3, {1, -0.5, 0.25, -2, 1.5, 0.5}, {0.1F, 0.2F, -0.3F}, Link::kOneVsRest));
  const std::vector<Row> rows = {{{0, 1}, {}}, {{1}, {}}, {}};
  const double right[][3] = {
      {0.173269, 0.460687, 0.366044}, {0.085290, 0.554276, 0.360434}, {0.349900, 0.366465, 0.283635}};
  const auto scores = Score(model, rows, false);
  ASSERT_EQ(scores.size(), 3U);
  for (size_t r = 0; r < 3; ++r) {
    for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(scores[r].scores[k], right[r][k], 1e-6) << r << " " << k;
  }
}

TEST_P(NumericContract, OnlyWhatIsWantedIsGiven) {
  Random random(13);
  for (const Link link : {Link::kSigmoid, Link::kSoftmax}) {
    const auto model = Load(RandomModel({.features = 30, .outputs = 4, .link = link}, random));
    const auto rows = RandomRows(50, {.features = 30, .has_values = false}, random);
    const auto expected = ReferenceScores(model->model(), rows);
    const CsrArrays arrays(rows, false);
    const CsrView view = arrays.view();
    for (const uint8_t wants : {kWantScores, kWantRaw}) {
      SlabHandle slab = engine_->TakeSlab();
      slab->Open(model, {});
      RowCursor cursor(view);
      ASSERT_TRUE(PackRows(view, cursor, *slab, *slab->Claim(rows.size(), view.indices.count, wants)).ok());
      slab->Seal();
      BatchWaiter waiter;
      engine_->Submit(std::move(slab), waiter, Where::kAnywhere);
      slab = waiter.Wait();
      ASSERT_TRUE(slab != nullptr && slab->status.ok());
      EXPECT_EQ(slab->scores(0) != nullptr, wants == kWantScores);
      EXPECT_EQ(slab->raw(0) != nullptr, wants == kWantRaw);
      auto wanted = expected;
      for (RowScore& score : wanted) (wants == kWantRaw ? score.scores.clear() : score.raw.clear());
      ExpectSameBits(wanted, ReadScores(*slab, static_cast<uint32_t>(rows.size())));
    }
  }
}

TEST_P(NumericContract, HoldsForValuesOfHalfPrecision) {
  Random random(17);
  for (const WeightType type : kWeightTypes) {
    for (const uint32_t outputs : {1U, 3U, 40U}) {
      for (const uint64_t features : {uint64_t{90}, uint64_t{70'000}}) {
        const ModelSpec spec{.features = features, .outputs = outputs, .type = type, .link = Link::kSigmoid};
        SCOPED_TRACE(Describe(spec));
        auto rows = RandomRows(70, {.features = features, .longest = 60}, random);
        for (Row& row : rows) {
          for (float& value : row.values) value = static_cast<float>(Between(random, -2048, 2048)) / 64.0F;
        }
        ExpectReference(RandomModel(spec, random), rows, true);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// The best outputs of rows, from a batch that gives nothing else.
struct BestOfRows {
  std::vector<uint32_t> outputs;
  std::vector<float> scores;
};

absl::StatusOr<BestOfRows> ScoreBest(Engine& engine, const std::shared_ptr<const LoadedModel>& model,
                                     const std::vector<Row>& rows, bool has_values, uint32_t best) {
  const CsrArrays arrays(rows, has_values);
  const CsrView view = arrays.view();
  SlabHandle slab = engine.TakeSlab();
  slab->Open(model, {.values = has_values ? Values::kFloat32 : Values::kOnes, .best = best});
  RowCursor cursor(view);
  const std::optional<Segment> segment = slab->Claim(rows.size(), view.indices.count, 0);
  if (!segment.has_value()) return absl::ResourceExhaustedError("the rows do not fit into a slab");
  if (const auto packed = PackRows(view, cursor, *slab, *segment); !packed.ok()) return packed.status();
  slab->Seal();
  slab->SpoilResults();
  BatchWaiter waiter;
  engine.Submit(std::move(slab), waiter, Where::kEngineThreads);
  slab = waiter.Wait();
  if (slab == nullptr) return absl::DeadlineExceededError("not done");
  if (!slab->status.ok()) return slab->status;
  const size_t count = rows.size() * best;
  return BestOfRows{{slab->best_outputs(0), slab->best_outputs(0) + count},
                    {slab->best_scores(0), slab->best_scores(0) + count}};
}

// What ranking all of the reference's outputs gives.
void ExpectBest(const std::vector<RowScore>& expected, uint32_t best, const BestOfRows& got) {
  for (size_t r = 0; r < expected.size(); ++r) {
    std::vector<uint32_t> order(expected[r].raw.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return expected[r].raw[a] > expected[r].raw[b]; });
    for (uint32_t k = 0; k < best; ++k) {
      const size_t at = r * best + k;
      ASSERT_EQ(got.outputs[at], order[k]) << "row " << r << ", place " << k;
      ASSERT_EQ(numeric::FloatBitsOf(got.scores[at]), numeric::FloatBitsOf(expected[r].scores[order[k]]))
          << "row " << r << ", place " << k;
    }
  }
}

TEST_P(NumericContract, TheBestOutputsAreThoseOfAllOutputs) {
  Random random(19);
  for (const uint32_t outputs : {2U, 9U, 32U, 33U, 257U, 1000U, 2500U}) {
    for (const Link link : kLinks) {
      if (outputs > 100 && link != Link::kSigmoid && link != Link::kSoftmax) continue;  // as with few, and slow
      const WeightType type = kWeightTypes[(outputs + static_cast<uint32_t>(link)) % 4];
      const ModelSpec spec{.features = 150, .outputs = outputs, .type = type, .link = link};
      SCOPED_TRACE(Describe(spec));
      const auto model = Load(RandomModel(spec, random));
      if (model == nullptr) return;
      for (const uint32_t best : {1U, 4U, 10U, 128U}) {
        if (best > outputs) continue;
        SCOPED_TRACE(absl::StrCat("best ", best));
        const bool has_values = best != 4;
        auto rows = RandomRows(outputs > 100 ? 12 : 70, {.features = 150, .has_values = has_values}, random);
        if (best == 10) {
          rows[3] = RandomRow({.features = 150, .shortest = 3000, .longest = 3000, .has_values = has_values}, random);
        }
        const auto got = ScoreBest(*engine_, model, rows, has_values, best);
        ASSERT_TRUE(got.ok()) << got.status();
        ExpectBest(ReferenceScores(model->model(), rows), best, *got);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(NumericContract, EqualOutputsRankByTheLowerOne) {
  for (const uint32_t outputs : {20U, 40U, 700U, 3000U}) {
    SCOPED_TRACE(absl::StrCat(outputs, " outputs"));
    // Three weights in turn, 0 and -0 among them; the rows' sums are equal in many outputs, or in all.
    std::vector<float> weights(2 * outputs);
    for (uint32_t k = 0; k < outputs; ++k) {
      weights[k] = static_cast<float>(k % 3);
      weights[outputs + k] = k % 2 == 0 ? 0.0F : -0.0F;
    }
    const auto model = Load(MakeModel(outputs, weights, std::vector<double>(outputs, -0.0), Link::kSigmoid));
    if (model == nullptr) return;
    const std::vector<Row> rows = {{{0}, {1.0F}}, {{0}, {-1.0F}}, {{1}, {1.0F}}, {{1}, {-1.0F}}, {}, {{0, 0}, {1, -1}}};
    const auto got = ScoreBest(*engine_, model, rows, true, 12);
    ASSERT_TRUE(got.ok()) << got.status();
    ExpectBest(ReferenceScores(model->model(), rows), 12, *got);
  }
}

TEST_P(NumericContract, HoldsForAnythingAtAll) {
  for (uint64_t seed = 0; seed < 120 / kShrink; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(1000 + seed);
    ModelSpec spec;
    spec.features = static_cast<uint64_t>(Between(random, 1, seed % 10 == 0 ? 80'000 : 500));
    spec.outputs = static_cast<uint32_t>(Between(random, 0, 2) == 0 ? Between(random, 2, seed % 10 == 0 ? 5 : 90) : 1);
    spec.type = kWeightTypes[Between(random, 0, 3)];
    spec.link = kLinks[Between(random, 0, 4)];
    if (spec.outputs == 1 && (spec.link == Link::kSoftmax || spec.link == Link::kOneVsRest)) spec.link = Link::kSigmoid;
    spec.low = static_cast<double>(Between(random, -30, 0));
    spec.high = spec.low + static_cast<double>(Between(random, 0, 30));
    spec.bias = Between(random, 0, 1) == 0;
    SCOPED_TRACE(Describe(spec));
    const bool has_values = Between(random, 0, 2) != 0;
    const RowSpec rows{.features = spec.features,
                       .longest = Between(random, 0, 300),
                       .has_values = has_values,
                       .low = spec.low,
                       .high = spec.high};
    ExpectReference(RandomModel(spec, random), RandomRows(static_cast<size_t>(Between(random, 0, 80)), rows, random),
                    has_values);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace widelane::test
