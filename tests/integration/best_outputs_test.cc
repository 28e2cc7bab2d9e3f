// The best outputs and labels of models with many outputs, which devices pick themselves: they are those that all raw
// sums and scores show.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "tests/support/expect.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

constexpr uint32_t kOutputs = 300;
constexpr int64_t kFeatures = 20;
constexpr int kRows = 500;  // more than a batch holds, of any kind

// Weights with many equal sums among them.
std::shared_ptr<const Model> Many(Link link) {
  ModelSpec spec{.features = kFeatures, .outputs = kOutputs, .link = link};
  for (int64_t i = 0; i < kFeatures * kOutputs; ++i) {
    spec.weights.push_back(static_cast<float>((i * 7919) % 23 - 11) * 0.125F);
  }
  for (uint32_t k = 0; k < kOutputs; ++k) spec.labels.push_back("label " + std::to_string(k));
  return MakeModel(spec);
}

std::vector<WireRow> ManyRows(bool ones) {
  std::vector<WireRow> rows;
  for (int r = 0; r < kRows; ++r) {
    WireRow row;
    for (int j = 0; j < r % 7; ++j) row.push_back({(r * 3 + j * 5) % kFeatures, ones ? 1.0F : 0.3F * float(j + 1)});
    rows.push_back(row);
  }
  return rows;
}

// What all raw sums and scores say.
struct Expected {
  std::vector<uint32_t> outputs;
  std::vector<float> scores;
};

Expected BestOf(const v1::ScoreReply& all, uint32_t k) {
  Expected expected;
  for (uint64_t row = 0; row < all.rows(); ++row) {
    const double* raw = all.raw().data() + row * kOutputs;
    std::vector<uint32_t> order(kOutputs);
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [raw](uint32_t a, uint32_t b) { return raw[a] > raw[b]; });
    for (uint32_t i = 0; i < k; ++i) {
      expected.outputs.push_back(order[i]);
      expected.scores.push_back(all.scores(static_cast<int>(row * kOutputs + order[i])));
    }
  }
  return expected;
}

void ExpectBest(const ScoreResult& result, const Expected& expected) {
  ExpectOk(result.status);
  const auto& outputs = result.reply.top_outputs();
  const auto& scores = result.reply.top_scores();
  ASSERT_EQ(static_cast<size_t>(outputs.size()), expected.outputs.size());
  ASSERT_EQ(static_cast<size_t>(scores.size()), expected.scores.size());
  EXPECT_TRUE(std::equal(outputs.begin(), outputs.end(), expected.outputs.begin()));
  EXPECT_EQ(std::memcmp(scores.data(), expected.scores.data(), expected.scores.size() * sizeof(float)), 0);
}

void ExpectLabels(const ScoreResult& result, const Expected& best) {
  ExpectOk(result.status);
  ASSERT_EQ(static_cast<size_t>(result.reply.labels_size()), best.outputs.size());
  for (size_t row = 0; row < best.outputs.size(); ++row) {
    EXPECT_EQ(result.reply.labels(static_cast<int>(row)), "label " + std::to_string(best.outputs[row]));
  }
}

class BestOutputsTest : public ::testing::TestWithParam<Route> {
 protected:
  BestOutputsTest()
      : server_({{"identity", Many(Link::kIdentity)}, {"softmax", Many(Link::kSoftmax)}, {"exp", Many(Link::kExp)}},
                [](ServerConfig& config) {
                  config.engine.route = GetParam();
                  config.engine.slab = {.rows = 300, .entries = 4096, .results = 300 * 64};
                }) {}

  ScoreResult Ask(const std::string& model, const std::vector<WireRow>& rows, const std::vector<v1::Output>& outputs,
                  uint32_t top_k = 0) {
    v1::ScoreRequest request = Request(model, PlainRows(rows));
    for (const v1::Output output : outputs) request.add_outputs(output);
    request.set_top_k(top_k);
    return server_.Score(request);
  }

  TestServer server_;
};

TEST_P(BestOutputsTest, AreThoseOfAllScores) {
  for (const char* model : {"identity", "softmax"}) {
    for (const bool ones : {true, false}) {
      const std::vector<WireRow> rows = ManyRows(ones);
      const ScoreResult all = Ask(model, rows, {v1::SCORES, v1::RAW});
      ExpectOk(all.status);
      for (const uint32_t k : kSanitized ? std::vector<uint32_t>{1, 17, 129, 300}
                                         : std::vector<uint32_t>{1, 2, 10, 16, 17, 128, 129, 299, 300}) {
        SCOPED_TRACE(std::string(model) + ", " + std::to_string(k));
        ExpectBest(Ask(model, rows, {v1::TOP_K}, k), BestOf(all.reply, k));
      }
      ExpectLabels(Ask(model, rows, {v1::LABELS}), BestOf(all.reply, 1));
      const ScoreResult both = Ask(model, rows, {v1::LABELS, v1::TOP_K}, 5);
      ExpectBest(both, BestOf(all.reply, 5));
      ExpectLabels(both, BestOf(all.reply, 1));
    }
  }
}

// Requests for one, ten, labels and everything at once, from many callers.
TEST_P(BestOutputsTest, OfManyCallersAtOnce) {
  const std::vector<WireRow> rows = ManyRows(false);
  const ScoreResult all = Ask("softmax", rows, {v1::SCORES, v1::RAW});
  ExpectOk(all.status);
  constexpr int kRounds = 6;
  std::vector<std::thread> callers;
  for (const uint32_t k : {1u, 3u, 10u, 12u}) {
    callers.emplace_back([&, k] {
      const Expected expected = BestOf(all.reply, k);
      for (int i = 0; i < kRounds; ++i) ExpectBest(Ask("softmax", rows, {v1::TOP_K}, k), expected);
    });
  }
  callers.emplace_back([&] {
    for (int i = 0; i < kRounds; ++i) ExpectLabels(Ask("softmax", rows, {v1::LABELS}), BestOf(all.reply, 1));
  });
  callers.emplace_back([&] {
    for (int i = 0; i < kRounds; ++i) {
      const ScoreResult again = Ask("softmax", rows, {v1::SCORES});
      ExpectOk(again.status);
      EXPECT_TRUE(std::equal(again.reply.scores().begin(), again.reply.scores().end(), all.reply.scores().begin(),
                             all.reply.scores().end()));
    }
  });
  for (std::thread& caller : callers) caller.join();
}

TEST_P(BestOutputsTest, AreRefusedBeyondFloat32) {
  const std::vector<WireRow> rows = {{}, {{0, 200.0F}}};  // exp(200 x 1.375) is above the largest float32
  ExpectError(Ask("exp", rows, {v1::TOP_K}, 2).status, grpc::StatusCode::OUT_OF_RANGE, {"row 1"});
  ExpectOk(Ask("exp", rows, {v1::LABELS}).status);
}

TEST_P(BestOutputsTest, ABadRowFailsItsOwnRequestOnly) {
  std::vector<WireRow> rows = ManyRows(true);
  rows[400] = {{kFeatures, 1.0F}};
  ExpectBadField(Ask("identity", rows, {v1::TOP_K}, 3).status, "rows.", {"row 400"});
}

INSTANTIATE_TEST_SUITE_P(Routes, BestOutputsTest, ::testing::Values(Route::kInline, Route::kPool, Route::kAuto),
                         [](const auto& of) { return kRouteNames[static_cast<size_t>(of.param)]; });

}  // namespace
}  // namespace widelane::test
