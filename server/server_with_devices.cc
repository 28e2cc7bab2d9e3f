// The seam for tests: apart from the rest because it needs to know what a device is.

#include <utility>

#include "engine/src/backends.h"
#include "server/server_impl.h"

namespace widelane {

absl::StatusOr<std::unique_ptr<Server>> Server::StartWithDevices(const ServerConfig& config,
                                                                 std::vector<std::unique_ptr<Device>> devices,
                                                                 Clock* clock) {
  auto impl = std::make_unique<Impl>(config, clock == nullptr ? Clock::Steady() : *clock);
  const auto make_engine = [&] {
    Backends backends;
    backends.devices = std::move(devices);
    return Engine::CreateWithDevices(config.engine, std::move(backends));
  };
  if (absl::Status status = impl->Start(make_engine); !status.ok()) return status;
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

}  // namespace widelane
