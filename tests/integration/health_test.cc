// Health under each name: while models load, when loading fails, when all is well, while stopping.

#include "tests/support/health.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/check.h"
#include "tests/support/expect.h"
#include "tests/support/fake_device.h"
#include "tests/support/http.h"
#include "tests/support/rows.h"
#include "tests/support/rpc.h"
#include "tests/support/server_process.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

const std::vector<std::string> kReadyNames = {"", "readiness", "widelane.v1.Scoring"};

class HealthTest : public ::testing::Test {
 protected:
  ~HealthTest() override { device_->Unblock(); }

  TestServer& Start(const TestServer::Models& models, const TestServer::Configure& configure = {}) {
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(FakeDevice::Cpu(device_));
    server_ = std::make_unique<TestServer>(models, std::move(devices), configure);
    return *server_;
  }

  void ExpectState(bool ready) {
    const HealthReply::Status expected = ready ? HealthReply::SERVING : HealthReply::NOT_SERVING;
    for (const std::string& name : kReadyNames) {
      const Health health = CheckHealth(server_->channel(), name);
      EXPECT_EQ(health.code, grpc::StatusCode::OK) << name;
      EXPECT_EQ(health.status, expected) << "'" << name << "'";
    }
    EXPECT_EQ(CheckHealth(server_->channel(), "liveness").status, HealthReply::SERVING);
    EXPECT_EQ(HttpGet(server_->server().http_address(), "/readyz").status, ready ? 200 : 503);
    EXPECT_EQ(HttpGet(server_->server().http_address(), "/healthz").status, 200);
    EXPECT_EQ(MetricValue(server_->Metrics(), "widelane_ready"), ready ? 1.0 : 0.0);
    EXPECT_EQ(server_->server().Ready(), ready);
  }

  std::shared_ptr<FakeDeviceControl> device_ = std::make_shared<FakeDeviceControl>();
  std::unique_ptr<TestServer> server_;
};

TEST_F(HealthTest, BecomesReadyWhenModelsAreLoaded) {
  device_->BlockLoads();
  TestServer& server = Start({{"r4", R4()}});
  std::vector<std::unique_ptr<HealthWatch>> watches;
  for (const std::string& name : kReadyNames) {
    watches.push_back(std::make_unique<HealthWatch>(server.channel(), name));
    EXPECT_TRUE(watches.back()->WaitFor(HealthReply::NOT_SERVING, kPatience));
  }
  HealthWatch live(server.channel(), "liveness");
  EXPECT_TRUE(live.WaitFor(HealthReply::SERVING, kPatience));
  ExpectState(false);
  const grpc::Status loading = server.Score(Request("r4", PlainRows({WireRow{}}))).status;
  ExpectError(loading, grpc::StatusCode::UNAVAILABLE, {"r4", "loading"});
  EXPECT_TRUE(TellsWhenToRetry(loading));
  EXPECT_FALSE(HttpGet(server.server().http_address(), "/readyz").body.empty());

  device_->Unblock();
  for (const auto& watch : watches) EXPECT_TRUE(watch->WaitFor(HealthReply::SERVING, kPatience));
  ExpectState(true);
  ExpectNear(server.Scores(Request("r4", PlainRows({WireRow{}}))), {0.320821301});
}

TEST_F(HealthTest, WatchesTellEachChangeOnceAndEndInOrder) {
  device_->BlockLoads();
  TestServer& server = Start({{"r4", R4()}});
  HealthWatch ready(server.channel(), "readiness");
  HealthWatch live(server.channel(), "liveness");
  HealthWatch unknown(server.channel(), "no.such");
  EXPECT_TRUE(ready.WaitFor(HealthReply::NOT_SERVING, kPatience));
  EXPECT_TRUE(live.WaitFor(HealthReply::SERVING, kPatience));
  EXPECT_TRUE(unknown.WaitFor(HealthReply::SERVICE_UNKNOWN, kPatience));
  device_->Unblock();
  EXPECT_TRUE(ready.WaitFor(HealthReply::SERVING, kPatience));
  std::thread stopping([&] { server.server().Shutdown(); });
  for (HealthWatch* watch : {&ready, &live, &unknown}) {
    EXPECT_TRUE(watch->WaitForEnd(kPatience));
    EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  stopping.join();
  using Shown = std::vector<HealthReply::Status>;
  EXPECT_EQ(ready.shown(), (Shown{HealthReply::NOT_SERVING, HealthReply::SERVING, HealthReply::NOT_SERVING}));
  EXPECT_EQ(live.shown(), (Shown{HealthReply::SERVING}));
  EXPECT_EQ(unknown.shown(), (Shown{HealthReply::SERVICE_UNKNOWN}));
}

TEST_F(HealthTest, ClientsThatCheckHealthConnectOnceItServes) {
  device_->BlockLoads();
  TestServer& server = Start({{"r4", R4()}});
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(
      R"({"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}})");
  const auto channel =
      grpc::CreateCustomChannel(server.server().grpc_address(), grpc::InsecureChannelCredentials(), arguments);
  const auto connects_in = [&](std::chrono::milliseconds time) {
    return channel->WaitForConnected(std::chrono::system_clock::now() + time);
  };
  EXPECT_FALSE(connects_in(std::chrono::milliseconds(300)));
  device_->Unblock();
  EXPECT_TRUE(connects_in(kPatience));
}

TEST_F(HealthTest, StaysLiveAndNotReadyWhenNoModelCouldBeLoaded) {
  device_->set_load_failure(absl::ResourceExhaustedError("the fake device is full"));
  TestServer& server = Start({{"r4", R4()}});
  ASSERT_TRUE(server.server().WaitUntilLoaded(kPatience));
  ExpectState(false);
  grpc::ClientContext context;
  v1::ListModelsReply models;
  ExpectOk(server.stub().ListModels(&context, {}, &models));
  ASSERT_EQ(models.models_size(), 1);
  EXPECT_EQ(models.models(0).state(), v1::ModelInfo::FAILED);
  EXPECT_NE(models.models(0).error().find("the fake device is full"), std::string::npos) << models.models(0).error();
}

TEST_F(HealthTest, OneFailedModelDoesNotMakeTheServerUnready) {
  TempDir files;
  TestServer& server = Start({{"r4", R4()}}, [&](ServerConfig& config) {
    config.models.models.push_back({"bad", files.Write("bad.safetensors", std::string("no model"))});
  });
  ASSERT_TRUE(server.server().WaitUntilLoaded(kPatience));
  ExpectState(true);
}

TEST_F(HealthTest, UnknownNames) {
  TestServer& server = Start({{"r4", R4()}});
  EXPECT_EQ(CheckHealth(server.channel(), "no.such").code, grpc::StatusCode::NOT_FOUND);
  HealthWatch watch(server.channel(), "no.such");
  EXPECT_TRUE(watch.WaitFor(HealthReply::SERVICE_UNKNOWN, kPatience));
  EXPECT_FALSE(watch.WaitFor(HealthReply::SERVING, std::chrono::milliseconds(300)));
  EXPECT_FALSE(watch.ended());
}

TEST_F(HealthTest, RequestsThatMakeNoSenseLeaveItAlone) {
  constexpr const char* kCheck = "/grpc.health.v1.Health/Check";
  TestServer& server = Start({{"r4", R4()}});
  EXPECT_EQ(CheckHealth(server.channel(), std::string(1 << 20, 'x')).code, grpc::StatusCode::NOT_FOUND);
  EXPECT_FALSE(CallRaw(server.channel(), kCheck, "\x0a\xff").status.ok());
  EXPECT_EQ(CheckHealth(server.channel(), "liveness").status, HealthReply::SERVING);
}

// Far more than the server has threads; some of them leave, the others are there until it stops.
TEST_F(HealthTest, ManyWatches) {
  TestServer& server = Start({{"r4", R4()}});
  ASSERT_TRUE(server.server().WaitUntilLoaded(kPatience));
  std::vector<std::unique_ptr<HealthWatch>> watches;
  for (int i = 0; i < 500; ++i) watches.push_back(std::make_unique<HealthWatch>(server.channel(), ""));
  for (const auto& watch : watches) EXPECT_TRUE(watch->WaitFor(HealthReply::SERVING, kPatience));
  watches.resize(250);
  std::thread stopping([&] { server.server().Shutdown(); });
  for (const auto& watch : watches) EXPECT_TRUE(watch->WaitForEnd(kPatience));
  for (const auto& watch : watches) EXPECT_EQ(watch->shown().back(), HealthReply::NOT_SERVING);
  stopping.join();
}

TEST_F(HealthTest, StopsServingAfterItHasSaidSo) {
  TestServer& server =
      Start({{"r4", R4()}}, [](ServerConfig& config) { config.drain.delay = std::chrono::seconds(2); });
  ASSERT_TRUE(server.server().WaitUntilLoaded(kPatience));
  std::vector<std::unique_ptr<HealthWatch>> watches;
  for (const std::string& name : kReadyNames) {
    watches.push_back(std::make_unique<HealthWatch>(server.channel(), name));
    EXPECT_TRUE(watches.back()->WaitFor(HealthReply::SERVING, kPatience));
  }
  std::thread stopping([&] { server.server().Shutdown(); });
  for (const auto& watch : watches) EXPECT_TRUE(watch->WaitFor(HealthReply::NOT_SERVING, kPatience));
  // The drain delay runs: the port is open, readiness is off, calls are served.
  ExpectState(false);
  ExpectNear(server.Scores(Request("r4", PlainRows({WireRow{}}))), {0.320821301});
  stopping.join();
  EXPECT_FALSE(server.Score(Request("r4", PlainRows({WireRow{}}))).status.ok());
}

// gRPC starts these threads as soon as one service of the process is written in its callback API, its own health
// service for one. server/README.md says why they must not be.
TEST_F(HealthTest, TheServerHasNoThreadsOfTheCallbackApi) {
  TempDir files;
  ServerProcess server({"--model", "r4=" + files.Write("r4.safetensors", *R4())});
  ASSERT_TRUE(server.WaitUntilReady());
  EXPECT_EQ(CheckHealth(server.channel(), "").status, HealthReply::SERVING);
  const std::string tasks = "/proc/" + std::to_string(server.process().pid()) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    EXPECT_NE(name, "nexting_thread");
  }
}

TEST_F(HealthTest, TheProcessTellsItsStopOnSigterm) {
  TempDir files;
  ServerProcess server({"--model", "r4=" + files.Write("r4.safetensors", *R4()), "--drain-delay-ms", "2000"});
  ASSERT_TRUE(server.WaitUntilReady());
  HealthWatch watch(server.channel(), "");
  ASSERT_TRUE(watch.WaitFor(HealthReply::SERVING, kPatience));
  server.process().Signal(SIGTERM);
  EXPECT_TRUE(watch.WaitFor(HealthReply::NOT_SERVING, kPatience));
  EXPECT_EQ(CheckHealth(server.channel(), "liveness").status, HealthReply::SERVING);
  ExpectOk(Score(server.stub(), Request("r4", PlainRows({WireRow{}}))).status);
  EXPECT_EQ(server.process().WaitForExit(kPatience), 0) << server.process().all();
}

}  // namespace
}  // namespace widelane::test
