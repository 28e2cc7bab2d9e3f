#include "server/server.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/observe/build_info.h"
#include "server/server_impl.h"

namespace widelane {

absl::Status Server::Impl::Start(const MakeEngine& make_engine) {
  if (absl::Status status = FindAllModels(); !status.ok()) return status;
  if (absl::Status status = OpenPorts(); !status.ok()) return status;
  if (absl::Status status = StartEngine(make_engine); !status.ok()) return status;
  LogStart();
  loader_ = std::make_unique<Loader>(*registry_, *engine_, metrics_, state_);
  return absl::OkStatus();
}

// Names only, so that a call for a model that is still to be loaded gets the right answer from the first moment.
absl::Status Server::Impl::FindAllModels() {
  std::vector<std::string> warnings;
  auto files = FindModels(config_.models, warnings);
  for (const std::string& warning : warnings) spdlog::warn("{}", warning);
  if (!files.ok()) return files.status();
  std::vector<std::unique_ptr<ServedModel>> models;
  for (ModelFile& file : *files) {
    ModelMetrics* metrics = metrics_.AddModel(file);
    models.push_back(std::make_unique<ServedModel>(std::move(file), metrics));
  }
  registry_ = std::make_unique<Registry>(std::move(models));
  return absl::OkStatus();
}

absl::Status Server::Impl::OpenPorts() {
  context_ = std::make_unique<FrontContext>(config_, metrics_, *registry_, clock_, tracer_);
  if (absl::Status status = StartTls(); !status.ok()) return status;
  auto front = FrontEnd::Start(*context_, tls_.get());
  if (!front.ok()) return front.status();
  front_ = *std::move(front);
  grpc_address_ = front_->address();
  if (!config_.front.http_address.empty()) {
    auto http = HttpEndpoint::Start(config_.front.http_address, metrics_, state_, tracer_);
    if (!http.ok()) return http.status();
    http_ = *std::move(http);
    http_address_ = http_->address();
  }
  state_.Watch([this](bool ready, size_t models) {
    front_->SetReady(ready);
    metrics_.SetReady(ready, models);
  });
  return absl::OkStatus();
}

absl::Status Server::Impl::StartTls() {
  if (!config_.tls.enabled()) return absl::OkStatus();
  auto tls = KeyPairWatch::Start(config_.tls, clock_);
  if (!tls.ok()) return tls.status();
  tls_ = *std::move(tls);
  metrics_.AddSource(*tls_);
  return absl::OkStatus();
}

absl::Status Server::Impl::StartEngine(const MakeEngine& make_engine) {
  auto engine = make_engine();
  if (!engine.ok()) return engine.status();
  engine_ = *std::move(engine);
  metrics_.SetDevices(engine_->devices(), !engine_->fallback_reason().empty());
  StartTelemetry();
  batcher_ = std::make_unique<Batcher>(*engine_, metrics_, config_.batching, clock_, &tracer_);
  metrics_.SetUse([this] { return Use(); });
  tracer_.SetSources(engine_->devices(), [this] {
    return Tracer::Counters{.in_flight = context_->admission.requests(), .queued = batcher_->waiting().requests};
  });
  context_->engine.store(engine_.get(), std::memory_order_release);
  context_->batcher.store(batcher_.get(), std::memory_order_release);
  return absl::OkStatus();
}

ServerUse Server::Impl::Use() const {
  const Admission& admission = context_->admission;
  ServerUse use{admission.rows(), admission.bytes(), admission.reply_bytes(), batcher_->waiting(), engine_->use()};
  if (!config_.metrics.triton) return use;
  for (const auto& model : registry_->models()) {
    if (model->state() != ModelState::kAvailable) continue;
    const LoadedModel* const loaded = model->loaded().get();
    use.waiting_by_model[loaded] = batcher_->waiting(loaded).requests;
  }
  return use;
}

void Server::Impl::StartTelemetry() {
  if (!config_.metrics.on) return;
  std::vector<std::string> gpus;
  for (const DeviceInfo& device : engine_->devices()) {
    if (device.index >= 0) gpus.push_back(device.id);
  }
  if (gpus.empty()) return;
  telemetry_ = std::make_unique<GpuTelemetry>(gpus, config_.telemetry, clock_);
  metrics_.AddSource(*telemetry_);
}

void Server::Impl::LogStart() const {
  spdlog::info("widelane-server {} (CUDA {})", kVersion, kBuiltWithCuda);
  for (const DeviceInfo& device : engine_->devices()) {
    const std::string index = device.index < 0 ? "" : absl::StrCat(", gpu ", device.index);
    spdlog::info("device {}: {}{}{}{}", device.id, device.name, index, device.pci_address.empty() ? "" : ", PCI ",
                 device.pci_address);
  }
  if (!engine_->fallback_reason().empty()) spdlog::warn("scoring on the CPU: {}", engine_->fallback_reason());
  if (!engine_->left_out().empty()) spdlog::warn("GPUs left out: {}", engine_->left_out());
  if (config_.engine.kernel != SumKernel::kExact && engine_->uses_gpus()) {
    spdlog::warn("GPUs sum with cuSPARSE: scores do not have the bits that other devices give");
  }
  if (config_.engine.route != Route::kAuto) {
    spdlog::info("all batches go {}, or the nearest way there is",
                 kRouteNames[static_cast<size_t>(config_.engine.route)]);
  }
  const LimitsConfig& limits = config_.limits;
  spdlog::info(
      "limits: {} bytes a message, {} bytes a reply, {} rows and {} entries a request, {} entries a row; {} requests "
      "and {} bytes at once",
      limits.max_message_bytes, limits.max_reply_bytes, limits.max_request_rows, limits.max_request_entries,
      engine_->limits().max_row_entries, limits.max_queued_requests, limits.max_queued_bytes);
  spdlog::info("serving gRPC on {}", grpc_address_);
  if (!http_address_.empty()) spdlog::info("serving HTTP on {}", http_address_);
}

void Server::Impl::WaitForDrainDelay() {
  std::unique_lock lock(mutex_);
  hurried_.wait_for(lock, config_.drain.delay, [this] { return hurry_.load(); });
}

void Server::Impl::Shutdown() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(shut_down_, true)) return;
  }
  state_.SetStopping();
  const bool started = loader_ != nullptr;
  if (started) {
    spdlog::info("stopping: not ready any more");
    loader_->Stop();
    WaitForDrainDelay();
  }
  state_.StopWatching();
  if (front_ != nullptr) front_->Shutdown(config_.drain.timeout, hurry_);
  tracer_.Stop();
  loader_.reset();
  front_.reset();
  metrics_.KeepUse();
  batcher_.reset();
  registry_.reset();
  engine_.reset();
  http_.reset();
  tls_.reset();
  telemetry_.reset();
  if (started) spdlog::info("stopped");
}

void Server::Impl::HurryShutdown() {
  const std::lock_guard lock(mutex_);
  hurry_ = true;
  hurried_.notify_all();
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerConfig& config) {
  auto impl = std::make_unique<Impl>(config, Clock::Steady());
  if (absl::Status status = impl->Start([&config] { return Engine::Create(config.engine); }); !status.ok())
    return status;
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

std::string Server::grpc_address() const { return impl_->grpc_address(); }
std::string Server::http_address() const { return impl_->http_address(); }
bool Server::WaitUntilLoaded(std::chrono::milliseconds timeout) { return impl_->state().WaitUntilLoaded(timeout); }
bool Server::Ready() const { return impl_->state().ready(); }
void Server::Shutdown() { impl_->Shutdown(); }
void Server::HurryShutdown() { impl_->HurryShutdown(); }

}  // namespace widelane
