#include "tests/support/test_server.h"

#include <gtest/gtest.h>

#include "tests/support/check.h"
#include "tests/support/http.h"

namespace widelane::test {

ServerConfig TestServer::Config() {
  ServerConfig config;
  config.front.grpc_address = "127.0.0.1:0";
  config.front.http_address = "127.0.0.1:0";
  config.engine.devices.kind = DeviceSelection::Kind::kCpu;
  config.engine.cpu_threads = 2;
  config.engine.slab = {.rows = 1 << 14, .entries = 1 << 20, .results = 1 << 16};
  config.engine.slabs = 4;
  config.engine.measure_costs = false;
  config.drain.delay = std::chrono::milliseconds(0);
  config.log.level = "error";
  return config;
}

TestServer::TestServer(const Models& models, const Configure& configure) {
  Open(Server::Start(ConfigFor(models, configure)));
  Require(server_->WaitUntilLoaded(std::chrono::seconds(60)), "models are loaded");
}

TestServer::TestServer(const Models& models, std::vector<std::unique_ptr<Device>> devices, const Configure& configure,
                       Clock* clock) {
  Open(Server::StartWithDevices(ConfigFor(models, configure), std::move(devices), clock));
}

ServerConfig TestServer::ConfigFor(const Models& models, const Configure& configure) {
  ServerConfig config = Config();
  for (const auto& [name, model] : models) {
    config.models.models.push_back({name, files_.Write(name + ".safetensors", *model)});
  }
  if (configure) configure(config);
  return config;
}

void TestServer::Open(absl::StatusOr<std::unique_ptr<Server>> server) {
  server_ = Must(std::move(server));
  channel_ = Connect(server_->grpc_address());
  stub_ = v1::Scoring::NewStub(channel_);
}

std::vector<float> TestServer::Scores(const v1::ScoreRequest& request) {
  const ScoreResult result = Score(request);
  EXPECT_TRUE(result.status.ok()) << result.status.error_code() << " " << result.status.error_message();
  return {result.reply.scores().begin(), result.reply.scores().end()};
}

std::string TestServer::Metrics() const { return HttpGet(server_->http_address(), "/metrics").body; }

TestServer::Models OneModel() { return {{"id1", Id1()}}; }

}  // namespace widelane::test
