// Whatever route batches go, answers are the same bits; and the server shows which route they went and what it costs.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/expect.h"
#include "tests/support/http.h"
#include "tests/support/rows.h"
#include "tests/support/server_process.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

constexpr uint64_t kRouteFeatures = 1000;
constexpr uint32_t kRouteOutputs = 3;

std::shared_ptr<const Model> Softmax() {
  ModelSpec spec{.features = kRouteFeatures, .outputs = kRouteOutputs, .bias = {0.5, -1, 0}, .link = Link::kSoftmax};
  for (uint64_t i = 0; i < kRouteFeatures * kRouteOutputs; ++i) {
    spec.weights.push_back(static_cast<float>((i * 104729) % 2003) / 1000 - 1);
  }
  return MakeModel(spec);
}

v1::ScoreRequest RowsOf40(int rows) {
  std::vector<WireRow> wire(static_cast<size_t>(rows));
  for (int r = 0; r < rows; ++r) {
    for (int j = 0; j < 40; ++j) {
      wire[static_cast<size_t>(r)].push_back(
          {(r * 17 + j * 31) % int64_t{kRouteFeatures}, 0.1F * static_cast<float>(j - r % 5)});
    }
  }
  v1::ScoreRequest request = Request("softmax", EncodedRows(wire, {}));
  request.add_outputs(v1::SCORES);
  request.add_outputs(v1::RAW);
  return request;
}

double Batches(const std::string& page, Route route) {
  const std::string label = std::string("route=\"") + kRouteNames[static_cast<size_t>(route)] + "\"";
  return MetricValue(page, "widelane_batches_total", {"device=\"cpu\"", label}).value_or(-1);
}

TEST(RoutesTest, AnswersAreEqualOnBothSidesOfEverySwitch) {
  const auto serve = [](Route route) {
    return std::make_unique<TestServer>(TestServer::Models{{"softmax", Softmax()}},
                                        [route](ServerConfig& config) { config.engine.route = route; });
  };
  const auto here = serve(Route::kInline);
  const auto pool = serve(Route::kPool);
  const auto chosen = serve(Route::kAuto);
  for (const int rows : {1, 2, 31, 32, 33, 64, 100, 127, 1000, 3000}) {
    SCOPED_TRACE(rows);
    const v1::ScoreRequest request = RowsOf40(rows);
    const ScoreResult expected = here->Score(request);
    ExpectOk(expected.status);
    ASSERT_EQ(expected.reply.rows(), static_cast<uint64_t>(rows));
    for (TestServer* server : {pool.get(), chosen.get()}) {
      const ScoreResult result = server->Score(request);
      ExpectOk(result.status);
      EXPECT_TRUE(std::equal(result.reply.raw().begin(), result.reply.raw().end(), expected.reply.raw().begin(),
                             expected.reply.raw().end()));
      EXPECT_TRUE(std::equal(result.reply.scores().begin(), result.reply.scores().end(),
                             expected.reply.scores().begin(), expected.reply.scores().end()));
    }
  }
  EXPECT_GT(Batches(here->Metrics(), Route::kInline), 0);
  EXPECT_EQ(Batches(here->Metrics(), Route::kPool), 0);
  EXPECT_GT(Batches(pool->Metrics(), Route::kPool), 0);
  EXPECT_EQ(Batches(pool->Metrics(), Route::kInline), 0);
  EXPECT_GT(Batches(chosen->Metrics(), Route::kInline), 0);
  EXPECT_GT(Batches(chosen->Metrics(), Route::kPool), 0);
}

TEST(RoutesTest, TheProcessShowsWhatTheyCost) {
  const TempDir files;
  ServerProcess server({"--devices", "cpu", "--route", "pool", "--kernel", "exact", "--spin-microseconds", "0",
                        "--model", "softmax=" + files.Write("softmax.safetensors", *Softmax())});
  ASSERT_TRUE(server.WaitUntilReady());
  ExpectOk(Score(server.stub(), RowsOf40(1)).status);
  const std::string page = HttpGet(server.http_address(), "/metrics").body;
  EXPECT_EQ(Batches(page, Route::kPool), 1);
  EXPECT_GT(MetricValue(page, "widelane_model_load_seconds", {"model=\"softmax\""}).value_or(0), 0);
  for (const char* route : {"inline", "pool"}) {
    double sum = 0;
    for (const char* term : {"fixed", "row", "entry"}) {
      const auto cost = MetricValue(page, "widelane_route_cost_seconds",
                                    {std::string("route=\"") + route + "\"", std::string("term=\"") + term + "\"",
                                     "device=\"cpu\"", "values=\"float32\"", "results=\"best\"", "model=\"softmax\""});
      ASSERT_TRUE(cost.has_value()) << route << " " << term;
      sum += *cost;
    }
    EXPECT_GT(sum, 0) << route;
  }
  const std::string log = server.process().all();
  EXPECT_NE(log.find("all batches go pool"), std::string::npos) << log;
  EXPECT_NE(log.find("fixed us"), std::string::npos) << log;
}

}  // namespace
}  // namespace widelane::test
