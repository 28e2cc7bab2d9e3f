#include "server/front/front_end.h"

#include <grpc/grpc.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/impl/server_builder_option.h"
#include "grpcpp/impl/server_builder_plugin.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server_builder.h"
#include "server/config/address.h"
#include "server/tls/server_credentials.h"
#include "widelane/engine/usable_cores.h"

namespace widelane {

namespace {

size_t CompletionQueues(const FrontConfig& config) {
  return config.completion_queues != 0 ? config.completion_queues : std::max<size_t>(1, UsableCores() / 4);
}

// Takes reflection out again: its library adds it to every server of the process it is linked into.
class WithoutReflection : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins, [](const auto& plugin) { return plugin->name() == "proto_server_reflection"; });
  }
};

int Count(std::chrono::milliseconds time) { return static_cast<int>(time.count()); }

// Connections that have gone silent, and those that live too long. A ping a minute is below the patience of the
// balancers and address translators that drop idle connections (some minutes), and finds callers that vanished.
void AddConnectionLife(const FrontConfig& config, grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Count(config.keepalive));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Count(config.keepalive_timeout));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, Count(config.min_ping_interval));
  if (config.max_connection_age.count() == 0) return;
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, Count(config.max_connection_age));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, Count(config.max_connection_age_grace));
}

// How clients may cut what they send. In frames of 16 KiB, which is HTTP/2's default, a large message comes in hundreds
// of pieces. How much is read at a time is left to gRPC: it follows what a connection brings, and more would be memory
// that small messages keep from others.
void AddReceiving(grpc::ServerBuilder& builder) {
  constexpr int kFrame = 1 << 20;
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrame);
}

void AddArguments(const ServerConfig& config, grpc::ServerBuilder& builder) {
  // A message that is a little over the limit is refused by ours, which names the option; gRPC refuses what is far over
  // it.
  constexpr int kSlack = 64 << 10;
  builder.SetMaxReceiveMessageSize(static_cast<int>(config.limits.max_message_bytes) + kSlack);
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(config.front.connection_calls));
  // Without this a second server on the same port starts without an error, and takes half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  AddConnectionLife(config.front, builder);
  AddReceiving(builder);
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

struct Listener {
  std::string address;
  std::optional<HostPort> port;  // or
  std::string unix_path;
  int bound = 0;  // the port, or 1
};

// Asked before gRPC is, because that does not tell why it cannot listen, and logs pages about it.
absl::StatusOr<Listener> FindListener(const std::string& address) {
  Listener listener{address, ParseHostPort(address), ParseUnixPath(address).value_or("")};
  if (!listener.port.has_value() && listener.unix_path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("'", address, "' is neither host:port nor unix:/path"));
  }
  const absl::Status status =
      listener.unix_path.empty() ? CheckCanListen("gRPC", *listener.port) : CheckCanListen("gRPC", listener.unix_path);
  if (!status.ok()) return status;
  return listener;
}

// gRPC makes sockets with the permissions that the process gives to all files.
absl::Status SetMode(const Listener& listener, uint32_t mode) {
  if (listener.unix_path.empty() || chmod(listener.unix_path.c_str(), mode) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot set the mode of ", listener.unix_path));
}

std::shared_ptr<grpc::ServerCredentials> CredentialsFor(const Listener& listener, const KeyPairWatch* tls) {
  if (tls == nullptr || !listener.unix_path.empty()) return grpc::InsecureServerCredentials();
  return MakeTlsCredentials(*tls);
}

std::string BoundAddress(const Listener& listener) {
  if (!listener.unix_path.empty()) return listener.address;
  return ToText({listener.port->host, static_cast<uint16_t>(listener.bound)});
}

}  // namespace

absl::StatusOr<std::unique_ptr<FrontEnd>> FrontEnd::Start(FrontContext& context, const KeyPairWatch* tls) {
  auto front = std::unique_ptr<FrontEnd>(new FrontEnd(context));
  if (absl::Status status = front->Listen(tls); !status.ok()) return status;
  return front;
}

absl::Status FrontEnd::Listen(const KeyPairWatch* tls) {
  const FrontConfig& config = context_.config.front;
  std::vector<Listener> listeners;
  for (const std::string& address : SplitAddresses(config.grpc_address)) {
    auto listener = FindListener(address);
    if (!listener.ok()) return listener.status();
    listeners.push_back(*std::move(listener));
  }
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  grpc::ServerBuilder builder;
  AddArguments(context_.config, builder);
  AddQuota(context_.config, builder);
  if (!config.reflection) builder.SetOption(std::make_unique<WithoutReflection>());
  for (Listener& listener : listeners) {
    credentials_.push_back(CredentialsFor(listener, tls));
    builder.AddListeningPort(listener.address, credentials_.back(), &listener.bound);
  }
  builder.RegisterService(&service_);
  builder.RegisterService(&health_);
  for (size_t i = 0; i < CompletionQueues(config); ++i) {
    queues_.push_back(std::make_unique<ScoreQueue>(context_, service_, builder.AddCompletionQueue()));
  }
  server_ = builder.BuildAndStart();
  std::vector<std::string> addresses;
  for (const Listener& listener : listeners) {
    if (server_ == nullptr || listener.bound <= 0) {
      return absl::UnavailableError(absl::StrCat("cannot listen for gRPC on ", listener.address));
    }
    if (absl::Status status = SetMode(listener, config.unix_mode); !status.ok()) return status;
    addresses.push_back(BoundAddress(listener));
  }
  address_ = absl::StrJoin(addresses, ",");
  for (const auto& queue : queues_) {
    health_.Serve(queue->completion_queue());
    queue->Start(config.threads_per_queue);
  }
  return absl::OkStatus();
}

void FrontEnd::Shutdown(std::chrono::milliseconds timeout, const std::atomic<bool>& hurry) {
  constexpr std::chrono::milliseconds kTick{20};
  const auto deadline = std::chrono::system_clock::now() + timeout;
  for (const auto& queue : queues_) queue->Drain();
  health_.Drain();
  std::atomic<bool> stopped{false};
  std::thread stopper([&] {
    server_->Shutdown(deadline);
    stopped = true;
  });
  const auto idle = [this, kTick] {
    return !service_.busy() && std::all_of(queues_.begin(), queues_.end(),
                                           [kTick](const auto& queue) { return queue->WaitUntilIdle(kTick); });
  };
  // What may never end (reflection, health watches of clients that do not read) must not hold the server up once our
  // own calls are done: some time after, since the ends of watches are on their way, and gRPC does not tell when the
  // replies of ListModels and GetModel have been sent.
  constexpr int kIdleTicks = 10;
  for (int idle_ticks = 0; !stopped;) {
    idle_ticks = idle() ? idle_ticks + 1 : 0;
    if (idle_ticks >= kIdleTicks || hurry) grpc_server_cancel_all_calls(server_->c_server());
    if (!stopped) std::this_thread::sleep_for(kTick);
  }
  stopper.join();
  health_.WaitUntilIdle();
  queues_.clear();
  server_.reset();
}

FrontEnd::~FrontEnd() {
  if (server_ == nullptr) return;
  const std::atomic<bool> hurry{true};
  Shutdown(std::chrono::milliseconds(0), hurry);
}

}  // namespace widelane
