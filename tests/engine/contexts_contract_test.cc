// Rows with contexts have the bits of the same rows written out: on every backend, in every kind of batch.

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends_under_test.h"
#include "harness.h"
#include "in_pieces.h"
#include "tests/support/reference.h"

namespace widelane::test {
namespace {

struct Request {
  std::vector<Row> rows;
  std::vector<Row> contexts;
  std::vector<uint16_t> of;  // [rows]
};

struct RequestSpec {
  uint64_t features = 97;
  Values values = Values::kOnes;
  size_t rows = 30;
  size_t contexts = 3;
  int64_t longest = 30;  // of rows and contexts
  double low = -2;       // powers of ten of float32 values
  double high = 1;
};

void SetValues(Row& row, const RequestSpec& spec, Random& random) {
  row.values.clear();
  if (spec.values == Values::kOnes) return;
  for (size_t i = 0; i < row.features.size(); ++i) {
    const bool zero = Between(random, 0, 9) == 0;
    const float value = spec.values == Values::kFloat16 ? static_cast<float>(Between(random, -800, 800)) / 8
                                                        : Wild(random, spec.low, spec.high);
    row.values.push_back(zero ? -0.0F : value);
  }
}

std::vector<Row> RowsOf(const RequestSpec& spec, size_t count, Random& random) {
  std::vector<Row> rows =
      RandomRows(count, {.features = spec.features, .longest = spec.longest, .has_values = false}, random);
  for (Row& row : rows) {
    if (Between(random, 0, 5) == 0) row = {};
    SetValues(row, spec, random);
  }
  return rows;
}

Request RandomRequest(const RequestSpec& spec, Random& random) {
  Request request{RowsOf(spec, spec.rows, random), RowsOf(spec, spec.contexts, random), {}};
  for (size_t r = 0; r < spec.rows; ++r) {
    request.of.push_back(static_cast<uint16_t>(Between(random, 0, static_cast<int64_t>(spec.contexts) - 1)));
  }
  return request;
}

// Each row with its context's entries behind its own.
std::vector<Row> WrittenOut(const Request& request) {
  std::vector<Row> rows = request.rows;
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row& context = request.contexts[request.of[r]];
    const bool has_values = !rows[r].values.empty() || !context.values.empty();
    if (has_values && rows[r].values.empty()) rows[r].values.assign(rows[r].features.size(), 1.0F);
    rows[r].features.insert(rows[r].features.end(), context.features.begin(), context.features.end());
    rows[r].values.insert(rows[r].values.end(), context.values.begin(), context.values.end());
    if (has_values) rows[r].values.resize(rows[r].features.size(), 1.0F);
  }
  return rows;
}

// A request's arrays; all with values or all without.
class Arrays {
 public:
  Arrays(const Request& request, bool rows_have_values, bool contexts_have_values)
      : rows_(request.rows, rows_have_values), contexts_(request.contexts, contexts_have_values), of_(request.of) {}
  CsrView rows() const { return rows_.view(); }
  RowContexts contexts() const { return {contexts_.view(), TypedArray::Of(ElementType::kU16, of_.data(), of_.size())}; }

 private:
  CsrArrays rows_;
  CsrArrays contexts_;
  std::vector<uint16_t> of_;
};

class ContextsContract : public EveryBackend {
 protected:
  // Packs a request as two segments of the slab, its arrays in pieces.
  static void Pack(const Request& request, const BatchKind& kind, Slab& slab, Random& random) {
    const bool has_values = kind.values != Values::kOnes;
    const Arrays arrays(request, has_values, has_values);
    InPieces pieces;
    const auto next_size = [&] { return static_cast<uint64_t>(Between(random, 1, 200)); };
    const CsrView rows = pieces.Cut(arrays.rows(), next_size);
    RowContexts contexts = arrays.contexts();
    contexts.features = pieces.Cut(contexts.features, next_size);
    contexts.of = pieces.Cut(contexts.of, next_size);
    const Model& model = slab.model()->model();
    ContextSums sums;
    const absl::Status computed =
        sums.Compute(model, rows, contexts, kind.values, uint64_t{slab.RoomForLines()} * model.outputs());
    ASSERT_TRUE(computed.ok()) << computed;
    RowCursor cursor(rows);
    for (const uint64_t end : {request.rows.size() / 3, request.rows.size()}) {
      uint64_t entries = 0;
      for (uint64_t r = cursor.row(); r < end; ++r) entries += request.rows[r].features.size();
      const auto segment = slab.Claim(end - cursor.row(), entries, kWantScores | kWantRaw, sums.lines());
      ASSERT_TRUE(segment.has_value());
      const auto packed = PackRows(rows, cursor, slab, *segment, &sums);
      ASSERT_TRUE(packed.ok()) << packed.status();
    }
  }

  SlabHandle Run(const std::shared_ptr<const LoadedModel>& model, const std::vector<Request>& requests,
                 const BatchKind& kind) {
    Random random(requests.size());
    SlabHandle slab = engine_->TakeSlab();
    slab->Open(model, kind);
    for (const Request& request : requests) {
      Pack(request, kind, *slab, random);
      if (HasFatalFailure()) return slab;
    }
    slab->Seal();
    BatchWaiter waiter;
    engine_->Submit(std::move(slab), waiter, Where::kEngineThreads);
    slab = waiter.Wait();
    if (slab != nullptr) {
      EXPECT_TRUE(slab->status.ok()) << slab->status;
    }
    return slab;
  }

  void ExpectWrittenOut(const std::shared_ptr<const LoadedModel>& model, const std::vector<Request>& requests,
                        Values values) {
    std::vector<Row> written;
    for (const Request& request : requests) {
      const std::vector<Row> rows = WrittenOut(request);
      written.insert(written.end(), rows.begin(), rows.end());
    }
    const auto expected = ReferenceScores(model->model(), written);
    const SlabHandle all = Run(model, requests, {.values = values, .contexts = true});
    if (HasFatalFailure()) return;
    ExpectSameBits(expected, ReadScores(*all, static_cast<uint32_t>(written.size())));
  }

  void ExpectBest(const std::shared_ptr<const LoadedModel>& model, const Request& request, Values values,
                  uint32_t best) {
    const auto expected = ReferenceScores(model->model(), WrittenOut(request));
    const SlabHandle slab = Run(model, {request}, {values, best, true});
    if (HasFatalFailure()) return;
    for (uint32_t r = 0; r < request.rows.size(); ++r) {
      std::vector<uint32_t> order(model->model().outputs());
      std::iota(order.begin(), order.end(), 0U);
      std::stable_sort(order.begin(), order.end(),
                       [&](uint32_t a, uint32_t b) { return expected[r].raw[a] > expected[r].raw[b]; });
      for (uint32_t k = 0; k < best; ++k) {
        ASSERT_EQ(slab->best_outputs(r)[k], order[k]) << "row " << r << " place " << k;
        ASSERT_EQ(slab->best_scores(r)[k], expected[r].scores[order[k]]) << "row " << r << " place " << k;
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, ContextsContract, ::testing::ValuesIn(AllBackends()),
                         [](const auto& backend) { return backend.param.name; });

constexpr Values kAllValues[] = {Values::kOnes, Values::kFloat16, Values::kFloat32};

TEST_P(ContextsContract, HoldsForEveryWeightTypeKindAndWidth) {
  Random random(1);
  for (const WeightType type : {WeightType::kFloat32, WeightType::kFloat16, WeightType::kBfloat16, WeightType::kInt8}) {
    for (const uint32_t outputs : {1U, 2U, 17U, 64U, 300U}) {
      const ModelSpec spec{
          .features = 97, .outputs = outputs, .type = type, .link = outputs > 2 ? Link::kSoftmax : Link::kSigmoid};
      SCOPED_TRACE(Describe(spec));
      const auto model = Load(RandomModel(spec, random));
      ASSERT_NE(model, nullptr);
      for (const Values values : kAllValues) {
        SCOPED_TRACE(kValuesNames[static_cast<size_t>(values)]);
        std::vector<Request> requests;
        for (const size_t contexts : {1, 2, 9}) {
          requests.push_back(RandomRequest({.values = values, .rows = 20, .contexts = contexts}, random));
        }
        ExpectWrittenOut(model, requests, values);
        if (outputs > 1) ExpectBest(model, requests[2], values, std::min(outputs, 10U));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ContextsContract, HoldsForManyGridsOfOneContext) {
  for (uint64_t seed = 0; seed < 12 / kShrink + 1; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    const uint32_t outputs = seed % 3 == 0 ? 5 : 1;
    // Down into the subnormals and up to the largest.
    const double low = seed % 2 == 0 ? -44.5 : -20;
    const double high = seed % 2 == 0 ? 38.4 : 20;
    const auto model = Load(RandomModel({.features = 97, .outputs = outputs, .low = low, .high = high}, random));
    ASSERT_NE(model, nullptr);
    const auto request = RandomRequest(
        {.values = Values::kFloat32, .rows = 200, .contexts = 4, .longest = 3, .low = low, .high = high}, random);
    ExpectWrittenOut(model, {request}, Values::kFloat32);
    if (HasFatalFailure()) return;
  }
}

TEST_P(ContextsContract, HoldsAtTheEndsOfFloat) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const std::vector<float> ends = {FLT_MAX, -FLT_MAX, tiny, -tiny, FLT_MIN, 1.0F, 0.0F, -0.0F};
  Request request;
  for (uint32_t i = 0; i < ends.size(); ++i) request.contexts.push_back({{i % 3, i}, {ends[i], ends[i]}});
  request.contexts.push_back({});
  for (uint16_t c = 0; c < request.contexts.size(); ++c) {
    for (uint32_t i = 0; i < ends.size(); ++i) {
      request.rows.push_back({{i, 5}, {ends[i], ends[(i + 2) % ends.size()]}});
      request.rows.push_back({});
      request.of.insert(request.of.end(), {c, c});
    }
  }
  for (const auto& weights : {ends, {tiny, -tiny, 0, 0, 0, 0, 0, 0}, std::vector<float>(8, 0.0F)}) {
    const auto model = Load(MakeModel(1, weights, {0.5}, Link::kIdentity));
    ASSERT_NE(model, nullptr);
    ExpectWrittenOut(model, {request}, Values::kFloat32);
    if (HasFatalFailure()) return;
  }
}

TEST_P(ContextsContract, EmptyRowsHaveTheScoreOfTheirContext) {
  const auto model = Load(R4());
  ASSERT_NE(model, nullptr);
  for (const Values values : kAllValues) {
    const bool has_values = values != Values::kOnes;
    const std::vector<float> one = has_values ? std::vector<float>{3.0F} : std::vector<float>{};
    const Request request{{{}, {{2}, one}, {}}, {{{1}, one}, {}}, {0, 1, 1}};
    ExpectWrittenOut(model, {request}, values);
  }
}

TEST_P(ContextsContract, UnknownFeaturesOfContextsCountNothing) {
  Random random(3);
  for (const Values values : kAllValues) {
    const auto model =
        Load(RandomModel({.features = 100, .outputs = 3, .unknown_features = UnknownFeatures::kIgnore}, random));
    ASSERT_NE(model, nullptr);
    // Half of the features are unknown; their values are among the largest of their rows and must not move the grid.
    const auto request =
        RandomRequest({.features = 200, .values = values, .rows = 100, .contexts = 5, .low = -2, .high = 20}, random);
    ExpectWrittenOut(model, {request}, values);
  }
}

TEST_P(ContextsContract, LongRowsAndLongContexts) {
  Random random(4);
  for (const uint32_t outputs : {1U, 7U, 130U}) {
    const auto model = Load(RandomModel({.features = 5000, .outputs = outputs}, random));
    ASSERT_NE(model, nullptr);
    for (const Values values : {Values::kOnes, Values::kFloat32}) {
      Request request = RandomRequest({.features = 5000, .values = values, .contexts = 2, .longest = 3000}, random);
      request.rows.push_back(
          RandomRow({.features = 5000, .shortest = 20'000, .longest = 20'000, .has_values = false}, random));
      SetValues(request.rows.back(), {.values = values}, random);
      request.of.push_back(1);
      ExpectWrittenOut(model, {request}, values);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(ContextsContract, VoidedSegmentsHarmNobody) {
  Random random(5);
  for (const Values values : kAllValues) {
    const auto model = Load(RandomModel({.features = 97, .outputs = 3}, random));
    ASSERT_NE(model, nullptr);
    const Request good = RandomRequest({.values = values}, random);
    SlabHandle slab = engine_->TakeSlab();
    slab->Open(model, {.values = values, .contexts = true});
    slab->Void(*slab->Claim(40, 100, kWantScores | kWantRaw, 2));
    Pack(good, slab->kind(), *slab, random);
    slab->Void(*slab->Claim(7, 0, kWantScores | kWantRaw, 1));
    slab->Seal();
    BatchWaiter waiter;
    engine_->Submit(std::move(slab), waiter, Where::kEngineThreads);
    slab = waiter.Wait();
    ASSERT_NE(slab, nullptr);
    ASSERT_TRUE(slab->status.ok()) << slab->status;
    auto scores = ReadScores(*slab, slab->rows());
    scores.erase(scores.begin(), scores.begin() + 40);
    scores.resize(good.rows.size());
    ExpectSameBits(ReferenceScores(model->model(), WrittenOut(good)), scores);
  }
}

// Cut into many batches, each of which brings the sums of all contexts; with values on one side only, too.
TEST_P(ContextsContract, ArraysOfAnySize) {
  UseSlabs({.rows = 700, .entries = 5000, .results = 4096, .context_sums = 4096});
  if (engine_ == nullptr) return;
  Random random(6);
  const auto model = Load(RandomModel({.features = 97, .outputs = 3}, random));
  ASSERT_NE(model, nullptr);
  for (const bool rows_have_values : {false, true}) {
    for (const bool contexts_have_values : {false, true}) {
      const auto spec = [](bool has_values) {
        return RequestSpec{
            .values = has_values ? Values::kFloat32 : Values::kOnes, .rows = 3000, .contexts = 20, .longest = 12};
      };
      Request request = RandomRequest(spec(rows_have_values), random);
      request.contexts = RowsOf(spec(contexts_have_values), 20, random);
      const Arrays arrays(request, rows_have_values, contexts_have_values);
      const RowContexts contexts = arrays.contexts();
      std::vector<double> raw(request.rows.size() * 3);
      std::vector<float> scores(raw.size());
      const auto report = engine_->ScoreCsr(model, arrays.rows(), {.scores = scores.data(), .raw = raw.data()},
                                            Route::kAuto, &contexts);
      ASSERT_TRUE(report.ok()) << report.status();
      std::vector<RowScore> got(request.rows.size());
      for (size_t r = 0; r < got.size(); ++r) {
        got[r].raw.assign(&raw[r * 3], &raw[r * 3] + 3);
        got[r].scores.assign(&scores[r * 3], &scores[r * 3] + 3);
      }
      ExpectSameBits(ReferenceScores(model->model(), WrittenOut(request)), got);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace widelane::test
