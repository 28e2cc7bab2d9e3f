#include "server/observe/metrics.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "prometheus/text_serializer.h"
#include "server/front/limits.h"
#include "server/front/status_mapping.h"
#include "server/models/cost_table.h"
#include "server/observe/build_info.h"
#include "server/observe/log_metrics.h"
#include "server/observe/process_metrics.h"

namespace widelane {

namespace {

constexpr char kDeadline[] = "deadline";
constexpr auto kCounter = prometheus::MetricType::Counter;
constexpr const char* kStateNames[] = {"loading", "available", "failed"};

// That a batch goes through, as opposed to its requests.
constexpr Stage kBatchStages[] = {Stage::kLaunch, Stage::kTransferIn, Stage::kCompute, Stage::kTransferOut};

int64_t Nanoseconds(std::chrono::nanoseconds time) { return time.count(); }

// A stage that did not take place is not observed.
void ObserveStage(Histogram* histogram, std::chrono::nanoseconds time, size_t stripe) {
  if (time.count() > 0) histogram->Observe(Nanoseconds(time), stripe);
}

constexpr bool IsScoring(Method method) { return method == Method::kScore || method == Method::kScoreStream; }

}  // namespace

prometheus::Family<prometheus::Counter>& Metrics::Counters(const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry_);
}

prometheus::Family<prometheus::Gauge>& Metrics::Gauges(const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry_);
}

Metrics::Metrics(const MetricsConfig& config)
    : on_(config.on),
      request_duration_("widelane_request_duration_seconds",
                        "Time from when a call's request was read to when its reply was handed to gRPC, all outcomes.",
                        DurationBounds(), kSecond),
      send_duration_("widelane_reply_send_duration_seconds",
                     "Time from when a reply was handed to gRPC to when gRPC was done with it.", DurationBounds(),
                     kSecond),
      stage_duration_("widelane_stage_duration_seconds", "Time of each batch in each stage, as the device measured it.",
                      DurationBounds(), kSecond),
      request_stage_duration_("widelane_request_stage_duration_seconds",
                              "Time of each request that was scored in each stage; they add up to its duration.",
                              DurationBounds(), kSecond),
      batch_rows_("widelane_batch_rows", "Rows of each batch.", SizeBounds()),
      batch_entries_("widelane_batch_entries", "Entries of each batch.", SizeBounds()),
      batches_(kCounter, "widelane_batches_total",
               "Batches that were scored; of one that several devices worked on, the last to finish."),
      closed_family_(kCounter, "widelane_batches_closed_total",
                     "Batches that were sent to be scored, by why they took no more rows."),
      rows_(kCounter, "widelane_rows_total", "Rows that were scored and answered."),
      ignored_features_(kCounter, "widelane_ignored_features_total",
                        "Entries of features the model does not have, where it ignores them."),
      entries_family_(kCounter, "widelane_entries_total", "Entries of the rows that were scored and answered."),
      message_bytes_(kCounter, "widelane_message_bytes_total", "Bytes of Score messages."),
      requests_family_(kCounter, "widelane_requests_total",
                       "Calls, and messages of streams, that ended, by method and status code."),
      in_flight_family_(prometheus::MetricType::Gauge, "widelane_requests_in_flight",
                        "Calls and messages of streams received and not yet ended."),
      streams_family_(prometheus::MetricType::Gauge, "widelane_streams_open",
                      "ScoreStream calls received and not yet ended."),
      device_info_(Gauges("widelane_device_info", "What a device label stands for; always 1.")),
      model_state_(Gauges("widelane_model_state", "1 for the state a model is in, 0 for the others.")),
      model_info_(Gauges("widelane_model_info", "What an available model is; always 1.")),
      model_load_(Gauges("widelane_model_load_seconds", "Time it took to load a model, or to fail.")),
      route_cost_(Gauges("widelane_route_cost_seconds",
                         "What a batch costs on a route, as measured at load: fixed, and for each row and entry.")),
      triton_(config.triton ? std::make_unique<TritonMetrics>() : nullptr) {
  for (size_t method = 0; method < kMethods; ++method) {
    durations_[method] = &request_duration_.Add({{"method", kMethodNames[method]}});
    if (IsScoring(static_cast<Method>(method))) {
      sends_[method] = &send_duration_.Add({{"method", kMethodNames[method]}});
    }
    for (size_t code = 0; code < kStatusCodes; ++code) {
      requests_[method][code] = &requests_family_.Add(
          {{"method", kMethodNames[method]}, {"code", StatusCodeName(static_cast<grpc::StatusCode>(code))}});
    }
  }
  for (size_t reason = 0; reason < kCloseReasons; ++reason) {
    closed_[reason] = &closed_family_.Add({{"reason", kCloseReasonNames[reason]}});
  }
  auto& refused =
      Counters("widelane_refused_total", "Requests refused for a limit or for a deadline that had passed on arrival.");
  for (const char* reason : kLimitOptions) refusals_.push_back({reason, &refused.Add({{"reason", reason}})});
  refusals_.push_back({kDeadline, &refused.Add({{"reason", kDeadline}})});
  bytes_in_ = &message_bytes_.Add({{"direction", "in"}});
  bytes_out_ = &message_bytes_.Add({{"direction", "out"}});
  device_failures_ = &Counters("widelane_device_failures_total",
                               "Pieces of batches that a GPU failed to score and the CPU scored instead.")
                          .Add({});
  slow_requests_ = &Counters("widelane_slow_requests_total", "Requests that took slow-request-ms or longer.").Add({});
  entries_ = &entries_family_.Add({});
  in_flight_ = &in_flight_family_.Add({});
  streams_open_ = &streams_family_.Add({});
  ready_ = &Gauges("widelane_ready", "1 when the server says it is ready.").Add({});
  models_available_ = &Gauges("widelane_models_available", "Models and versions that are served.").Add({});
  cpu_fallback_ = &Gauges("widelane_cpu_fallback", "1 when no GPU could be had and the CPU was chosen for it.").Add({});
  Gauges("widelane_build_info", "The build; always 1.").Add({{"version", kVersion}, {"cuda", kBuiltWithCuda}}).Set(1);
}

void Metrics::SetDevices(const std::vector<DeviceInfo>& devices, bool fell_back) {
  cpu_fallback_->Set(fell_back ? 1 : 0);
  for (const DeviceInfo& info : devices) {
    device_info_
        .Add({{"device", info.id}, {"index", absl::StrCat(info.index)}, {"name", info.name}, {"pci", info.pci_address}})
        .Set(1);
    device_ids_.push_back(info.id);
    DeviceMetrics& metrics = devices_.emplace_back();
    for (size_t route = 0; route < kRoutes; ++route) {
      metrics.batches[route] = &batches_.Add({{"device", info.id}, {"route", kRouteNames[route]}});
    }
    metrics.batch_rows = &batch_rows_.Add({{"device", info.id}});
    metrics.batch_entries = &batch_entries_.Add({{"device", info.id}});
    for (const Stage stage : kBatchStages) {
      const auto index = static_cast<size_t>(stage);
      metrics.stages[index] = &stage_duration_.Add({{"stage", kStageNames[index]}, {"device", info.id}});
    }
    for (size_t stage = 0; stage < kStages; ++stage) {
      metrics.request_stages[stage] =
          &request_stage_duration_.Add({{"stage", kStageNames[stage]}, {"device", info.id}});
    }
  }
}

ModelMetrics* Metrics::AddModel(const ModelFile& file) {
  const std::string version = absl::StrCat(file.version);
  auto metrics = std::make_unique<ModelMetrics>();
  metrics->rows = &rows_.Add({{"model", file.name}, {"version", version}});
  metrics->ignored_features = &ignored_features_.Add({{"model", file.name}, {"version", version}});
  if (triton_ != nullptr) metrics->triton = &triton_->Add({{"model", file.name}, {"version", version}});
  for (size_t state = 0; state < metrics->states.size(); ++state) {
    metrics->states[state] =
        &model_state_.Add({{"model", file.name}, {"version", version}, {"state", kStateNames[state]}});
  }
  metrics->states[static_cast<size_t>(ModelState::kLoading)]->Set(1);
  models_.push_back(std::move(metrics));
  return models_.back().get();
}

void Metrics::OnModelState(const ServedModel& served, const std::vector<DeviceInfo>& devices,
                           std::chrono::nanoseconds time) {
  model_load_.Add({{"model", served.file().name}, {"version", served.version()}})
      .Set(std::chrono::duration<double>(time).count());
  for (size_t state = 0; state < served.metrics()->states.size(); ++state) {
    served.metrics()->states[state]->Set(state == static_cast<size_t>(served.state()) ? 1 : 0);
  }
  if (served.state() != ModelState::kAvailable) return;
  if (triton_ != nullptr) triton_->Bind(served.loaded().get(), *served.metrics()->triton);
  const Model& model = served.loaded()->model();
  model_info_
      .Add({{"model", served.file().name},
            {"version", served.version()},
            {"link", LinkName(model.link())},
            {"weight_type", WeightTypeName(model.weight_type())},
            {"features", absl::StrCat(model.features())},
            {"outputs", absl::StrCat(model.outputs())}})
      .Set(1);
  for (const RouteCost& cost : served.loaded()->costs()) SetRouteCost(served, devices[cost.device], cost);
}

void Metrics::SetRouteCost(const ServedModel& served, const DeviceInfo& device, const RouteCost& of) {
  const auto set = [&](const char* term, double ns) {
    route_cost_
        .Add({{"model", served.file().name},
              {"version", served.version()},
              {"device", device.id},
              {"route", kRouteNames[static_cast<size_t>(of.route)]},
              {"values", kValuesNames[static_cast<size_t>(of.kind.values)]},
              {"results", ResultsName(of.kind)},
              {"term", term}})
        .Set(ns * 1e-9);
  };
  set("fixed", of.cost.fixed_ns);
  set("row", of.cost.row_ns);
  set("entry", of.cost.entry_ns);
}

void Metrics::SetReady(bool ready, size_t models_available) {
  ready_->Set(ready ? 1 : 0);
  models_available_->Set(static_cast<double>(models_available));
}

void Metrics::SetUse(std::function<ServerUse()> ask) {
  const std::lock_guard lock(use_mutex_);
  ask_for_use_ = std::move(ask);
}

void Metrics::KeepUse() {
  const std::lock_guard lock(use_mutex_);
  if (ask_for_use_ == nullptr) return;
  kept_use_ = ask_for_use_();
  ask_for_use_ = nullptr;
}

std::optional<ServerUse> Metrics::Use() const {
  const std::lock_guard lock(use_mutex_);
  if (ask_for_use_ == nullptr) return kept_use_;
  return ask_for_use_();
}

void Metrics::AddSource(MetricSource& source) {
  const std::lock_guard lock(sources_mutex_);
  sources_.push_back(&source);
}

void Metrics::OnCallStart() {
  if (on_) in_flight_->Add(1);
}

void Metrics::OnCallEnd(Method method, int code, TimePoint start, TimePoint answered, std::optional<TimePoint> sent) {
  if (!on_) return;
  const size_t stripe = OwnStripe();
  const auto index = static_cast<size_t>(method);
  durations_[index]->Observe(Nanoseconds(answered - start), stripe);
  if (sends_[index] != nullptr) {
    const TimePoint end = sent.has_value() ? *sent : std::chrono::steady_clock::now();
    sends_[index]->Observe(Nanoseconds(end - answered), stripe);
  }
  requests_[index][static_cast<size_t>(std::clamp(code, 0, static_cast<int>(kStatusCodes) - 1))]->Add(1, stripe);
  in_flight_->Add(-1, stripe);
}

void Metrics::OnRefused(const absl::Status& status) {
  const std::optional<std::string> limit = ErrorLimit(status);
  if (!limit.has_value() && !absl::IsDeadlineExceeded(status)) return;
  for (const Refusal& refusal : refusals_) {
    if (refusal.reason == limit.value_or(kDeadline)) refusal.count->Increment();
  }
}

void Metrics::OnRequestBytes(uint64_t bytes) {
  if (on_) bytes_in_->Add(static_cast<int64_t>(bytes));
}

void Metrics::OnScored(const ModelMetrics& model, const ScoredRequest& request) {
  if (!on_) return;
  const size_t stripe = OwnStripe();
  model.rows->Add(static_cast<int64_t>(request.rows), stripe);
  entries_->Add(static_cast<int64_t>(request.entries), stripe);
  bytes_out_->Add(static_cast<int64_t>(request.reply_bytes), stripe);
  if (request.ignored_features > 0) {
    model.ignored_features->Add(static_cast<int64_t>(request.ignored_features), stripe);
  }
  if (request.times.batches == 0) return;
  const StageTimes stages = RequestStages(request.times, request.received, request.handed);
  const DeviceMetrics& device = devices_[static_cast<size_t>(request.times.device)];
  for (size_t stage = 0; stage < kStages; ++stage) {
    ObserveStage(device.request_stages[stage], stages.time[stage], stripe);
  }
  if (model.triton != nullptr) TritonMetrics::OnScored(*model.triton, request.rows, stages, stripe);
}

void Metrics::OnFailed(const ModelMetrics& model) {
  if (model.triton != nullptr) TritonMetrics::OnFailed(*model.triton);
}

void Metrics::OnBatchClosed(CloseReason reason) {
  if (on_) closed_[static_cast<size_t>(reason)]->Add(1);
}

void Metrics::OnBatch(const Slab& slab) {
  if (!on_ || slab.device < 0) return;
  const size_t stripe = OwnStripe();
  if (triton_ != nullptr) triton_->OnBatch(slab.model().get(), stripe);
  const DeviceMetrics& device = devices_[static_cast<size_t>(slab.device)];
  device.batches[static_cast<size_t>(slab.route)]->Add(1, stripe);
  device.batch_rows->Observe(slab.rows(), stripe);
  device.batch_entries->Observe(slab.entries(), stripe);
  for (const Stage stage : kBatchStages) {
    ObserveStage(device.stages[static_cast<size_t>(stage)], slab.stages[stage], stripe);
  }
}

void Metrics::OnDeviceFailures(uint64_t failures) {
  uint64_t seen = failures_seen_.load(std::memory_order_relaxed);
  while (seen < failures && !failures_seen_.compare_exchange_weak(seen, failures, std::memory_order_relaxed)) {
  }
  if (seen >= failures) return;
  device_failures_->Increment(static_cast<double>(failures - seen));
  if (seen == 0) spdlog::warn("a GPU failed to score; it gets no more work, the CPU stands in for it");
}

std::vector<prometheus::MetricFamily> Metrics::Collect() const {
  std::vector<prometheus::MetricFamily> families = registry_.Collect();
  for (const HistogramFamily* family : {&request_duration_, &send_duration_, &stage_duration_, &request_stage_duration_,
                                        &batch_rows_, &batch_entries_}) {
    families.push_back(family->Collect());
  }
  for (const CountFamily* family : {&batches_, &closed_family_, &rows_, &ignored_features_, &entries_family_,
                                    &message_bytes_, &requests_family_, &in_flight_family_, &streams_family_}) {
    families.push_back(family->Collect());
  }
  const std::optional<ServerUse> use = Use();
  if (use.has_value()) {
    for (prometheus::MetricFamily& family : UseMetrics(*use, device_ids_)) families.push_back(std::move(family));
  }
  if (triton_ != nullptr) {
    const auto waiting = use.has_value() ? use->waiting_by_model : std::map<const LoadedModel*, uint64_t>();
    for (prometheus::MetricFamily& family : triton_->Collect(waiting)) families.push_back(std::move(family));
  }
  for (prometheus::MetricFamily& family : CollectProcessMetrics()) families.push_back(std::move(family));
  for (prometheus::MetricFamily& family : CollectLogMetrics()) families.push_back(std::move(family));
  {
    const std::lock_guard lock(sources_mutex_);
    for (MetricSource* source : sources_) {
      for (prometheus::MetricFamily& family : source->Collect()) families.push_back(std::move(family));
    }
  }
  // A family without children has nothing to say yet.
  families.erase(
      std::remove_if(families.begin(), families.end(), [](const auto& family) { return family.metric.empty(); }),
      families.end());
  return families;
}

std::string Metrics::Page() const { return prometheus::TextSerializer().Serialize(Collect()); }

}  // namespace widelane
