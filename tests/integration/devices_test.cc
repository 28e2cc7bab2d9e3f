// GPUs that fail: requests are scored on the CPU, with the same bits.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/expect.h"
#include "tests/support/fake_device.h"
#include "tests/support/http.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

class DevicesTest : public ::testing::Test {
 protected:
  DevicesTest() {
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(FakeDevice::Cpu(cpu_));
    devices.push_back(FakeDevice::Gpu(0, gpus_[0]));
    devices.push_back(FakeDevice::Gpu(1, gpus_[1]));
    server_ =
        std::make_unique<TestServer>(TestServer::Models{{"r4", R4()}}, std::move(devices), [](ServerConfig& config) {
          config.engine.route = Route::kAllGpus;
          config.engine.slab = {.rows = 1 << 13, .entries = 1 << 14, .results = 1 << 13};  // models are tried with half
        });
  }

  v1::ScoreRequest LargeRequest() const {
    std::vector<WireRow> rows;
    for (int i = 0; i < 5000; ++i) rows.push_back({{i % 4, 0.001f * static_cast<float>(i)}, {2, 1.1f}});
    v1::ScoreRequest request = Request("r4", PlainRows(rows));
    request.add_outputs(v1::SCORES);
    request.add_outputs(v1::RAW);
    request.set_stage_times(true);
    return request;
  }

  std::shared_ptr<FakeDeviceControl> cpu_ = std::make_shared<FakeDeviceControl>();
  std::shared_ptr<FakeDeviceControl> gpus_[2] = {std::make_shared<FakeDeviceControl>(),
                                                 std::make_shared<FakeDeviceControl>()};
  std::unique_ptr<TestServer> server_;
};

TEST_F(DevicesTest, ABatchIsCutOverAllGpus) {
  ASSERT_TRUE(server_->server().WaitUntilLoaded(std::chrono::seconds(60)));
  // Slow enough that no lane takes a second piece before the others have had their first.
  for (const auto& gpu : gpus_) gpu->set_delay(std::chrono::milliseconds(100));
  const uint64_t before[2] = {gpus_[0]->rows(), gpus_[1]->rows()};
  const ScoreResult result = server_->Score(LargeRequest());
  ExpectOk(result.status);
  EXPECT_EQ(result.reply.stage_times().device().rfind("GPU-fake-", 0), 0u) << result.reply.stage_times().device();
  EXPECT_GT(gpus_[0]->rows(), before[0]);
  EXPECT_GT(gpus_[1]->rows(), before[1]);
  EXPECT_EQ(MetricValue(server_->Metrics(), "widelane_cpu_fallback"), 0.0);
}

TEST_F(DevicesTest, FailingGpusLeaveTheSameBits) {
  ASSERT_TRUE(server_->server().WaitUntilLoaded(std::chrono::seconds(60)));
  const ScoreResult good = server_->Score(LargeRequest());
  ExpectOk(good.status);
  for (const auto& gpu : gpus_) gpu->set_failure(absl::InternalError("the fake GPU fell off the bus"));
  const ScoreResult failed_over = server_->Score(LargeRequest());
  ExpectOk(failed_over.status);
  EXPECT_TRUE(std::equal(good.reply.raw().begin(), good.reply.raw().end(), failed_over.reply.raw().begin(),
                         failed_over.reply.raw().end()));
  EXPECT_TRUE(std::equal(good.reply.scores().begin(), good.reply.scores().end(), failed_over.reply.scores().begin(),
                         failed_over.reply.scores().end()));
  EXPECT_TRUE(server_->server().Ready());
  // Even while both the GPUs and the CPU fail, every caller gets an answer.
  cpu_->set_failure(absl::InternalError("the fake CPU is on fire"));
  EXPECT_EQ(server_->Score(LargeRequest()).status.error_code(), grpc::StatusCode::INTERNAL);
  cpu_->set_failure(absl::OkStatus());
  ExpectOk(server_->Score(LargeRequest()).status);
}

}  // namespace
}  // namespace widelane::test
