// The server's own main over a device that, once models are loaded and the log says so, never ends a batch. Linked with
// --wrap, so that main's call of Server::Start comes here.

#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "server/server.h"
#include "tests/support/fake_device.h"

namespace widelane {

absl::StatusOr<std::unique_ptr<Server>> StartHanging(const ServerConfig& config) asm(
    "__wrap__ZN8widelane6Server5StartERKNS_12ServerConfigE");

absl::StatusOr<std::unique_ptr<Server>> StartHanging(const ServerConfig& config) {
  ServerConfig on_gpu = config;
  on_gpu.engine.route = Route::kCopied;
  on_gpu.engine.measure_costs = false;
  const auto gpu = std::make_shared<test::FakeDeviceControl>();
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(test::FakeDevice::Cpu(std::make_shared<test::FakeDeviceControl>()));
  devices.push_back(test::FakeDevice::Gpu(0, gpu));
  auto server = Server::StartWithDevices(on_gpu, std::move(devices));
  if (!server.ok()) return server;
  (*server)->WaitUntilLoaded(std::chrono::seconds(60));
  gpu->Block();
  spdlog::info("the device hangs from now on");
  return server;
}

}  // namespace widelane
