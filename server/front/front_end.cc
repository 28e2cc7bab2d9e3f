#include "server/front/front_end.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/impl/server_builder_option.h"
#include "grpcpp/impl/server_builder_plugin.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server_builder.h"
#include "server/config/address.h"
#include "widelane/engine/usable_cores.h"

namespace widelane {

namespace {

size_t CompletionQueues(const FrontConfig& config) {
  return config.completion_queues != 0 ? config.completion_queues : std::max<size_t>(1, UsableCores() / 2);
}

// Takes reflection out again: its library adds it to every server of the process it is linked into.
class WithoutReflection : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins, [](const auto& plugin) { return plugin->name() == "proto_server_reflection"; });
  }
};

void AddArguments(const ServerConfig& config, grpc::ServerBuilder& builder) {
  // A message that is a little over the limit is refused by ours, which names the option; gRPC refuses what is far over
  // it.
  constexpr int kSlack = 64 << 10;
  constexpr int kLeastPingMilliseconds = 10'000;
  builder.SetMaxReceiveMessageSize(static_cast<int>(config.limits.max_message_bytes) + kSlack);
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(config.front.connection_calls));
  // Without this a second server on the same port starts without an error, and takes half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kLeastPingMilliseconds);
}

// Bounds what gRPC itself takes: memory for messages that are not ours yet, and threads for calls other than Score.
void AddQuota(const ServerConfig& config, grpc::ServerBuilder& builder) {
  constexpr int kSyncThreads = 32;
  constexpr int kPollers = 2;
  grpc::ResourceQuota quota("widelane");
  quota.Resize(config.front.grpc_memory_bytes);
  quota.SetMaxThreads(kSyncThreads);
  builder.SetResourceQuota(quota);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, kPollers);
}

}  // namespace

absl::StatusOr<std::unique_ptr<FrontEnd>> FrontEnd::Start(FrontContext& context) {
  auto front = std::unique_ptr<FrontEnd>(new FrontEnd(context));
  if (absl::Status status = front->Listen(); !status.ok()) return status;
  return front;
}

absl::Status FrontEnd::Listen() {
  const FrontConfig& config = context_.config.front;
  const std::optional<HostPort> wanted = ParseHostPort(config.grpc_address);
  if (!wanted.has_value())
    return absl::InvalidArgumentError(absl::StrCat("'", config.grpc_address, "' is not host:port"));
  // Asked first because gRPC does not tell why it cannot listen, and logs pages about it.
  if (absl::Status status = CheckCanListen("gRPC", *wanted); !status.ok()) return status;
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  grpc::ServerBuilder builder;
  AddArguments(context_.config, builder);
  AddQuota(context_.config, builder);
  if (!config.reflection) builder.SetOption(std::make_unique<WithoutReflection>());
  int port = 0;
  builder.AddListeningPort(config.grpc_address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service_);
  for (size_t i = 0; i < CompletionQueues(config); ++i) {
    queues_.push_back(std::make_unique<ScoreQueue>(context_, service_, builder.AddCompletionQueue()));
  }
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port <= 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen for gRPC on ", config.grpc_address));
  }
  SetReady(false);
  address_ = ToText({wanted->host, static_cast<uint16_t>(port)});
  for (const auto& queue : queues_) queue->Start(config.threads_per_queue);
  return absl::OkStatus();
}

void FrontEnd::SetReady(bool ready) {
  // One by one: setting all at once would turn "liveness" off as well.
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  health->SetServingStatus("", ready);
  health->SetServingStatus("readiness", ready);
  health->SetServingStatus(v1::Scoring::service_full_name(), ready);
  health->SetServingStatus("liveness", true);
}

void FrontEnd::Shutdown(std::chrono::milliseconds timeout, const std::atomic<bool>& hurry) {
  constexpr std::chrono::milliseconds kTick{20};
  const auto deadline = std::chrono::system_clock::now() + timeout;
  std::atomic<bool> stopped{false};
  std::thread stopper([&] {
    server_->Shutdown(deadline);
    stopped = true;
  });
  const auto idle = [this, kTick] {
    return !service_.busy() && std::all_of(queues_.begin(), queues_.end(),
                                           [kTick](const auto& queue) { return queue->WaitUntilIdle(kTick); });
  };
  // Streams that never end by themselves (health watches, reflection) must not hold the server up once our own calls
  // are done: some time after, since gRPC does not tell when the replies of ListModels and GetModel have been sent.
  constexpr int kIdleTicks = 10;
  for (int idle_ticks = 0; !stopped;) {
    idle_ticks = idle() ? idle_ticks + 1 : 0;
    if (idle_ticks >= kIdleTicks || hurry) grpc_server_cancel_all_calls(server_->c_server());
    if (!stopped) std::this_thread::sleep_for(kTick);
  }
  stopper.join();
  queues_.clear();
  server_.reset();
}

FrontEnd::~FrontEnd() {
  if (server_ == nullptr) return;
  const std::atomic<bool> hurry{true};
  Shutdown(std::chrono::milliseconds(0), hurry);
}

}  // namespace widelane
