// Telemetry of the GPUs that a server uses, on its page of metrics.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "tests/support/expect.h"
#include "tests/support/fake_device.h"
#include "tests/support/fake_nvml_library.h"
#include "tests/support/http.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

std::unique_ptr<TestServer> Serve(const TestServer::Configure& configure) {
  std::vector<std::unique_ptr<Device>> devices;
  const auto control = std::make_shared<FakeDeviceControl>();
  devices.push_back(FakeDevice::Cpu(control));
  devices.push_back(FakeDevice::Gpu(0, control));
  auto server = std::make_unique<TestServer>(TestServer::Models{{"r4", R4()}}, std::move(devices), configure);
  EXPECT_TRUE(server->server().WaitUntilLoaded(kPatience));
  return server;
}

bool BecomesUp(const TestServer& server, double up) {
  return Eventually(
      [&] { return MetricValue(server.Metrics(), "widelane_gpu_telemetry_up", {"device=\"GPU-fake-0\""}) == up; },
      kPatience);
}

void ExpectScores(TestServer& server) {
  ExpectNear(server.Scores(Request("r4", PlainRows({{{2, 3.0f}}}))), {0.994779874});
}

TEST(GpuTelemetryTest, IsOnThePage) {
  FakeNvmlLibrary nvml({"GPU-fake-0", "GPU-of-others"});
  nvml.Set(&FakeNvml::utilization_percent, 50);
  const auto server = Serve([&](ServerConfig& config) { config.telemetry.library = nvml.path(); });
  ASSERT_TRUE(BecomesUp(*server, 1));
  const std::string page = server->Metrics();
  EXPECT_EQ(MetricValue(page, "widelane_gpu_utilization_ratio", {"device=\"GPU-fake-0\""}), 0.5);
  EXPECT_EQ(page.find("GPU-of-others"), std::string::npos);
  ExpectScores(*server);
}

TEST(GpuTelemetryTest, ServesWithoutTheLibrary) {
  const auto server =
      Serve([](ServerConfig& config) { config.telemetry.library = "no-such-folder/libnvidia-ml.so.1"; });
  ASSERT_TRUE(BecomesUp(*server, 0));
  EXPECT_EQ(MetricValue(server->Metrics(), "widelane_gpu_utilization_ratio"), std::nullopt);
  ExpectScores(*server);
}

TEST(GpuTelemetryTest, ServesAndStopsWithALibraryThatHangs) {
  FakeNvmlLibrary nvml({"GPU-fake-0"});
  nvml.Set(&FakeNvml::hang, 1);
  const auto server = Serve([&](ServerConfig& config) {
    config.telemetry.library = nvml.path();
    config.telemetry.stale = std::chrono::milliseconds(10);
    config.telemetry.patience = std::chrono::milliseconds(10);
  });
  EXPECT_TRUE(BecomesUp(*server, 0));
  ExpectScores(*server);
  server->server().Shutdown();
  nvml.Set(&FakeNvml::hang, 0);
  EXPECT_TRUE(Eventually([&] { return nvml.Get(&FakeNvml::opened) == 0; }, kPatience));
}

TEST(GpuTelemetryTest, NothingIsShownWithoutGpus) {
  TestServer server({{"r4", R4()}});
  EXPECT_EQ(server.Metrics().find("widelane_gpu_"), std::string::npos);
}

}  // namespace
}  // namespace widelane::test
