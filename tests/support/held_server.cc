#include "tests/support/held_server.h"

#include <utility>

#include "tests/support/check.h"
#include "tests/support/expect.h"
#include "tests/support/health.h"
#include "tests/support/http.h"

namespace widelane::test {

HeldServer::HeldServer(const TestServer::Models& models, const TestServer::Configure& configure, Clock* clock) {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(FakeDevice::Cpu(cpu_));
  devices.push_back(FakeDevice::Gpu(0, device_, 1));
  const auto on_gpu = [&configure](ServerConfig& config) {
    config.engine.route = Route::kCopied;
    // Models are tried with batches of half a slab, which sanitizers make long.
    config.engine.slab = {.rows = 1 << 12, .entries = 1 << 14, .results = 1 << 13};
    config.front.completion_queues = 1;
    config.front.threads_per_queue = 1;
    // However slow the machine: a batch that waits is open until it is full or the device takes it.
    config.batching.max_delay = std::chrono::hours(1);
    if (configure) configure(config);
  };
  server_ = std::make_unique<TestServer>(models, std::move(devices), on_gpu, clock);
  Require(server_->server().WaitUntilLoaded(kPatience), "models are loaded");
  loaded_batches_ = device_->batches();
  loaded_rows_ = device_->rows();
}

HeldServer::~HeldServer() { device_->Unblock(); }

void HeldServer::Hold(PendingCalls& calls, const v1::ScoreRequest& one_row) {
  device_->Block();
  const uint64_t before = batches();
  calls.Send(stub(), one_row);
  Require(WaitForBatches(before + 1), "the device has begun");
}

bool HeldServer::FinishBatch() {
  const uint64_t before = batches();
  device_->LetThrough(1);
  return WaitForBatches(before + 1);
}

bool HeldServer::WaitForBatches(uint64_t batches) const {
  return device_->WaitForBatches(loaded_batches_ + batches, kPatience);
}

double HeldServer::Metric(const std::string& name, const std::vector<std::string>& labels) const {
  return MetricValue(server_->Metrics(), name, labels).value_or(-1);
}

bool HeldServer::WaitForInFlight(double requests) const {
  if (!Eventually([&] { return InFlight() == requests; }, kPatience)) return false;
  // The only thread that takes calls answers this when it is through with those it has counted.
  return CheckHealth(server_->channel(), "liveness").status == HealthReply::SERVING;
}

}  // namespace widelane::test
