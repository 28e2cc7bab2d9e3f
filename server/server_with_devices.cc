// The seam for tests: apart from the rest because it needs to know what a device is.

#include <cstdlib>
#include <utility>

#include "engine/src/backend.h"
#include "server/server_impl.h"

namespace widelane {

namespace {

class PlainMemory : public HostMemory {
 public:
  std::byte* Allocate(size_t bytes) override {
    constexpr size_t kAlignment = 64;
    return static_cast<std::byte*>(std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
  }
  void Free(std::byte* data, size_t /*bytes*/) override { std::free(data); }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::StartWithDevices(const ServerConfig& config,
                                                                 std::vector<std::unique_ptr<Device>> devices) {
  auto impl = std::make_unique<Impl>(config);
  const auto make_engine = [&] {
    return Engine::CreateWithDevices(config.engine, std::move(devices), std::make_unique<PlainMemory>(), "");
  };
  if (absl::Status status = impl->Start(make_engine); !status.ok()) return status;
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

}  // namespace widelane
