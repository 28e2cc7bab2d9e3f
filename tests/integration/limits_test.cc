// Limits: refused at once, naming limit, value and option; and the server goes on.

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/check.h"
#include "tests/support/expect.h"
#include "tests/support/fake_device.h"
#include "tests/support/health.h"
#include "tests/support/http.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

using grpc::StatusCode;

TEST(LimitsTest, RefusesMoreRowsThanTheLimit) {
  TestServer server({{"r4", R4()}}, [](ServerConfig& config) { config.limits.max_request_rows = 10; });
  ExpectOk(server.Score(Request("r4", PlainRows(std::vector<WireRow>(10)))).status);
  ExpectError(server.Score(Request("r4", PlainRows(std::vector<WireRow>(11)))).status, StatusCode::RESOURCE_EXHAUSTED,
              {"11", "10", "max-request-rows"});
  ExpectOk(server.Score(Request("r4", PlainRows(std::vector<WireRow>(10)))).status);
}

TEST(LimitsTest, RefusesMoreEntriesThanTheLimit) {
  TestServer server({{"r4", R4()}}, [](ServerConfig& config) { config.limits.max_request_entries = 10; });
  const auto rows_of = [](size_t entries) { return PlainRows({{}, WireRow(entries, {0, 0.5f})}); };
  ExpectOk(server.Score(Request("r4", rows_of(10))).status);
  ExpectError(server.Score(Request("r4", rows_of(11))).status, StatusCode::RESOURCE_EXHAUSTED,
              {"11", "10", "max-request-entries"});
}

// A server whose device waits until told, with room for few requests.
class FullServerTest : public ::testing::Test {
 protected:
  void Start(const TestServer::Configure& configure) {
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(FakeDevice::Cpu(device_));
    server_ = std::make_unique<TestServer>(TestServer::Models{{"id1", Id1()}}, std::move(devices), configure);
    Require(server_->server().WaitUntilLoaded(std::chrono::seconds(60)), "models are loaded");
  }
  ~FullServerTest() override {
    device_->Unblock();
    for (std::thread& caller : callers_) caller.join();
  }

  void Send(size_t callers, size_t rows) {
    results_.resize(callers);
    for (size_t i = 0; i < callers; ++i) {
      callers_.emplace_back([this, i, rows] {
        results_[i] = server_->Score(Id1Request(std::vector<float>(rows, static_cast<float>(i))));
      });
    }
  }

  void ExpectRefusalsAndThenRecovery(const std::string& option) {
    ASSERT_TRUE(Eventually([&] { return MetricValue(server_->Metrics(), "widelane_requests_in_flight") >= 4.0; }));
    const ScoreResult refused = server_->Score(Id1Request(std::vector<float>(100, 1.0f)));
    ExpectError(refused.status, StatusCode::RESOURCE_EXHAUSTED, {option});
    EXPECT_TRUE(TellsWhenToRetry(refused.status));
    device_->Unblock();
    for (std::thread& caller : callers_) caller.join();
    callers_.clear();
    for (size_t i = 0; i < results_.size(); ++i) {
      ExpectOk(results_[i].status);
      for (const float score : results_[i].reply.scores()) ASSERT_EQ(score, static_cast<float>(i));
    }
    // A call keeps its place until gRPC has sent the reply, which the caller may see first.
    EXPECT_TRUE(Eventually([&] { return MetricValue(server_->Metrics(), "widelane_requests_in_flight") == 0.0; }));
    ExpectNear(server_->Scores(Id1Request({7.0f})), {7});
    EXPECT_GE(MetricValue(server_->Metrics(), "widelane_refused_total").value_or(0), 1);
  }

  std::shared_ptr<FakeDeviceControl> device_ = std::make_shared<FakeDeviceControl>();
  std::unique_ptr<TestServer> server_;
  std::vector<ScoreResult> results_;
  std::vector<std::thread> callers_;
};

TEST_F(FullServerTest, RefusesMoreRequestsThanMayWait) {
  Start([](ServerConfig& config) { config.limits.max_queued_requests = 4; });
  device_->Block();
  Send(4, 1);
  ExpectRefusalsAndThenRecovery("max-queued-requests");
}

TEST_F(FullServerTest, RefusesMoreBytesThanMayWait) {
  const size_t bytes = Id1Request(std::vector<float>(100, 1.0f)).ByteSizeLong();
  Start([&](ServerConfig& config) { config.limits.max_queued_bytes = 4 * bytes + 50; });
  device_->Block();
  Send(4, 100);
  ExpectRefusalsAndThenRecovery("max-queued-bytes");
}

TEST_F(FullServerTest, HealthAnswersWhileTheQueueIsFull) {
  Start([](ServerConfig& config) { config.limits.max_queued_requests = 4; });
  device_->Block();
  Send(4, 1);
  ASSERT_TRUE(Eventually([&] { return MetricValue(server_->Metrics(), "widelane_requests_in_flight") >= 4.0; }));
  for (const char* name : {"", "liveness", "readiness"}) {
    EXPECT_EQ(CheckHealth(server_->channel(), name).status, HealthReply::SERVING) << name;
  }
  EXPECT_EQ(HttpGet(server_->server().http_address(), "/healthz").status, 200);
  EXPECT_EQ(HttpGet(server_->server().http_address(), "/readyz").status, 200);
}

// A server with far more requests than slabs answers all of them.
TEST(SlabsTest, ManyRequestsFewSlabs) {
  TestServer server({{"id1", Id1()}}, [](ServerConfig& config) {
    config.engine.slab = {.rows = 64, .entries = 64, .results = 64};
    config.engine.slabs = 2;
  });
  std::vector<std::thread> callers;
  std::vector<ScoreResult> results(24);
  for (size_t i = 0; i < results.size(); ++i) {
    callers.emplace_back(
        [&, i] { results[i] = server.Score(Id1Request(std::vector<float>(500, static_cast<float>(i)))); });
  }
  for (std::thread& caller : callers) caller.join();
  for (size_t i = 0; i < results.size(); ++i) {
    ExpectOk(results[i].status);
    ASSERT_EQ(results[i].reply.scores_size(), 500);
    for (const float score : results[i].reply.scores()) ASSERT_EQ(score, static_cast<float>(i));
  }
}

}  // namespace
}  // namespace widelane::test
