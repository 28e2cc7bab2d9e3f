// Stopping: what is in flight is finished, the exit code is 0, a second signal hurries.

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "tests/support/check.h"
#include "tests/support/expect.h"
#include "tests/support/fake_device.h"
#include "tests/support/health.h"
#include "tests/support/http.h"
#include "tests/support/rows.h"
#include "tests/support/server_process.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

class ShutdownTest : public ::testing::Test {
 protected:
  std::vector<std::string> Arguments(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--model", "id1=" + files_.Write("id1.safetensors", *Id1())};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  TempDir files_;
};

// Clients that ask until the health service says NOT_SERVING lose nothing.
TEST_F(ShutdownTest, SigtermUnderLoadLosesNoCall) {
  ServerProcess server(Arguments({"--drain-delay-ms", "60000"}));
  ASSERT_TRUE(server.WaitUntilReady());
  std::atomic<bool> stop = false;
  std::atomic<int> answered = 0;
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      const auto stub = v1::Scoring::NewStub(Connect(server.grpc_address()));
      for (int i = 0; !stop; ++i) {
        const float value = static_cast<float>(client * 100000 + i);
        const ScoreResult result = Score(*stub, Id1Request({value}));
        ASSERT_TRUE(result.status.ok()) << result.status.error_code() << " " << result.status.error_message();
        ASSERT_EQ(result.reply.scores(0), value);
        ++answered;
      }
    });
  }
  HealthWatch watch(server.channel(), "");
  EXPECT_TRUE(watch.WaitFor(HealthReply::SERVING, kPatience));
  EXPECT_TRUE(Eventually([&] { return answered > 50; }));
  server.process().Signal(SIGTERM);
  EXPECT_TRUE(watch.WaitFor(HealthReply::NOT_SERVING, kPatience));
  stop = true;
  for (std::thread& client : clients) client.join();
  // Nobody is left who would need the rest of the delay.
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().WaitForExit(kPatience), 0) << server.process().all();
}

// Clients that never look at the health service get answers or errors, but all get one, and the server stops.
TEST_F(ShutdownTest, SigtermUnderBlindLoadEndsEveryCall) {
  ServerProcess server(Arguments({"--drain-delay-ms", "100", "--drain-timeout-ms", "5000"}));
  ASSERT_TRUE(server.WaitUntilReady());
  std::atomic<int> answered = 0;
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&] {
      const auto stub = v1::Scoring::NewStub(Connect(server.grpc_address()));
      for (;;) {
        const ScoreResult result = Score(*stub, Id1Request({1, 2, 3}), kPatience);
        if (!result.status.ok()) {
          EXPECT_TRUE(result.status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                      result.status.error_code() == grpc::StatusCode::CANCELLED)
              << result.status.error_code() << " " << result.status.error_message();
          return;
        }
        ++answered;
      }
    });
  }
  EXPECT_TRUE(Eventually([&] { return answered > 50; }));
  server.process().Signal(SIGTERM);
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(server.process().WaitForExit(kPatience), 0) << server.process().all();
}

TEST_F(ShutdownTest, ASecondSignalHurries) {
  for (const int signal : {SIGTERM, SIGINT}) {
    ServerProcess server(Arguments({"--drain-delay-ms", "100000"}));
    ASSERT_TRUE(server.WaitUntilReady());
    HealthWatch watch(server.channel(), "");
    ASSERT_TRUE(watch.WaitFor(HealthReply::SERVING, kPatience));
    server.process().Signal(SIGTERM);
    ASSERT_TRUE(watch.WaitFor(HealthReply::NOT_SERVING, kPatience));
    EXPECT_EQ(server.process().WaitForExit(std::chrono::milliseconds(300)), std::nullopt);
    server.process().Signal(signal);
    EXPECT_EQ(server.process().WaitForExit(kPatience), 0) << server.process().all();
  }
}

TEST_F(ShutdownTest, SigintStopsAnIdleServer) {
  ServerProcess server(Arguments({"--drain-delay-ms", "10"}));
  ASSERT_TRUE(server.WaitUntilReady());
  server.process().Signal(SIGINT);
  EXPECT_EQ(server.process().WaitForExit(kPatience), 0) << server.process().all();
}

TEST_F(ShutdownTest, SigtermWhileModelsAreLoadedStops) {
  // Together they take seconds, and the signal comes as soon as the log tells the ports.
  constexpr size_t kModels = 24;
  constexpr uint64_t kFeatures = 8 << 20;
  const std::string file = files_.Write(
      "large.safetensors", *MakeModel({.features = kFeatures, .weights = std::vector<float>(kFeatures, 1.0f)}));
  std::vector<std::string> arguments = {"--drain-delay-ms", "10"};
  for (size_t i = 0; i < kModels; ++i) {
    arguments.insert(arguments.end(), {"--model", "large" + std::to_string(i) + "=" + file});
  }
  ServerProcess server(arguments);
  ASSERT_TRUE(server.WaitForPorts());
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().WaitForExit(kPatience), 0) << server.process().all();
  const std::string log = server.process().all();
  EXPECT_EQ(log.find("ready: "), std::string::npos) << log;
  EXPECT_EQ(log.find("model large" + std::to_string(kModels - 1)), std::string::npos) << log;
}

// A request whose batch is running when the server is told to stop.
class InFlightTest : public ::testing::Test {
 protected:
  InFlightTest() {
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(FakeDevice::Cpu(device_));
    server_ =
        std::make_unique<TestServer>(TestServer::Models{{"id1", Id1()}}, std::move(devices),
                                     [](ServerConfig& config) { config.drain.timeout = std::chrono::seconds(1); });
    Require(server_->server().WaitUntilLoaded(kPatience), "models are loaded");
    device_->Block();
    const uint64_t before = device_->batches();
    callers_.emplace_back([this] { running_ = server_->Score(Id1Request({1, 2})); });
    Require(device_->WaitForBatches(before + 1, kPatience), "a batch runs");
    callers_.emplace_back([this] { waiting_ = server_->Score(Id1Request({3})); });
    Require(Eventually([this] { return MetricValue(server_->Metrics(), "widelane_requests_in_flight") >= 2.0; }),
            "a request waits");
  }
  ~InFlightTest() override {
    device_->Unblock();
    for (std::thread& caller : callers_) caller.join();
  }

  std::shared_ptr<FakeDeviceControl> device_ = std::make_shared<FakeDeviceControl>();
  std::unique_ptr<TestServer> server_;
  ScoreResult running_;
  ScoreResult waiting_;
  std::vector<std::thread> callers_;
};

TEST_F(InFlightTest, IsFinished) {
  std::thread stopping([this] { server_->server().Shutdown(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  device_->Unblock();
  stopping.join();
  for (std::thread& caller : callers_) caller.join();
  callers_.clear();
  ExpectOk(running_.status);
  ExpectNear(running_.reply.scores(), {1, 2}, 0);
  ExpectOk(waiting_.status);
  ExpectNear(waiting_.reply.scores(), {3}, 0);
}

TEST_F(InFlightTest, IsToldWhenTheDrainTimeoutIsOver) {
  std::thread stopping([this] { server_->server().Shutdown(); });
  // The calls end by themselves after a second; the batch still runs.
  for (std::thread& caller : callers_) caller.join();
  callers_.clear();
  EXPECT_FALSE(running_.status.ok());
  EXPECT_FALSE(waiting_.status.ok());
  device_->Unblock();
  stopping.join();
}

}  // namespace
}  // namespace widelane::test
