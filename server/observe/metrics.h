// All metrics of the server. Names are listed in tests/server/metrics.golden and in server/README.md.
//
// Children are looked up once, when a device or model becomes known; observing takes no lock and, where it
// happens for each call, writes memory of the calling thread only.

#ifndef WIDELANE_SERVER_OBSERVE_METRICS_H_
#define WIDELANE_SERVER_OBSERVE_METRICS_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"
#include "server/batching/batcher.h"
#include "server/batching/task_times.h"
#include "server/config/config.h"
#include "server/models/registry.h"
#include "server/observe/counter.h"
#include "server/observe/histogram.h"
#include "server/observe/metric_source.h"
#include "server/observe/triton_metrics.h"
#include "server/observe/use_metrics.h"
#include "widelane/engine/device.h"
#include "widelane/engine/route.h"
#include "widelane/engine/stages.h"

namespace widelane {

// Methods of the Scoring service.
enum class Method : uint8_t { kScore, kScoreStream, kListModels, kGetModel };
inline constexpr size_t kMethods = 4;
inline constexpr std::array<const char*, kMethods> kMethodNames = {"Score", "ScoreStream", "ListModels", "GetModel"};
inline constexpr size_t kStatusCodes = 17;

// Of one model and version.
struct ModelMetrics {
  Count* rows = nullptr;
  Count* ignored_features = nullptr;
  TritonMetrics::Model* triton = nullptr;      // null unless they are wanted
  std::array<prometheus::Gauge*, 3> states{};  // by ModelState
};

// A request that was answered with results.
struct ScoredRequest {
  uint64_t rows;
  uint64_t entries;
  uint64_t ignored_features;
  uint64_t reply_bytes;
  const TaskTimes& times;
  TaskTimes::TimePoint received;
  TaskTimes::TimePoint handed;  // its reply, to gRPC
};

class Metrics : public BatchObserver {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit Metrics(const MetricsConfig& config = {});

  // Off: calls, requests and batches are not counted, and nobody is to be shown a page.
  bool on() const { return on_; }

  // Once, when the engine stands and before any batch.
  void SetDevices(const std::vector<DeviceInfo>& devices, bool fell_back);
  // A model that is to be loaded; lives as long as the metrics.
  ModelMetrics* AddModel(const ModelFile& file);
  // The model has left LOADING, after so long; `devices` are the engine's.
  void OnModelState(const ServedModel& model, const std::vector<DeviceInfo>& devices, std::chrono::nanoseconds time);
  void SetReady(bool ready, size_t models_available);
  // Where the page's UseMetrics come from, until KeepUse. Called by one thread at a time.
  void SetUse(std::function<ServerUse()> ask);
  // What was to be asked goes: the page keeps what it tells now.
  void KeepUse();
  // Adds what `source` offers to the page; it outlives all calls of Page and Collect.
  void AddSource(MetricSource& source);

  // Around each call, and each request of a stream. `sent`: without, it has been sent now.
  void OnCallStart();
  void OnCallEnd(Method method, int code, TimePoint start, TimePoint answered, std::optional<TimePoint> sent);
  // Around each stream.
  void OnStreamStart() { streams_open_->Add(1); }
  void OnStreamEnd() { streams_open_->Add(-1); }
  void OnRefused(const absl::Status& status);
  void OnSlowRequest() { slow_requests_->Increment(); }
  void OnRequestBytes(uint64_t bytes);
  // A request for the model was answered: with results, or with an error.
  void OnScored(const ModelMetrics& model, const ScoredRequest& request);
  static void OnFailed(const ModelMetrics& model);

  // BatchObserver.
  void OnBatchClosed(CloseReason reason) override;
  void OnBatch(const Slab& slab) override;
  void OnDeviceFailures(uint64_t failures) override;

  // The page in Prometheus' text format.
  std::string Page() const;
  // What the page is made of; for tests.
  std::vector<prometheus::MetricFamily> Collect() const;

 private:
  struct DeviceMetrics {
    std::array<Count*, kRoutes> batches{};  // by Route
    Histogram* batch_rows = nullptr;
    Histogram* batch_entries = nullptr;
    std::array<Histogram*, kStages> stages{};          // of batches, of those that batches have
    std::array<Histogram*, kStages> request_stages{};  // of requests
  };
  struct Refusal {
    const char* reason;
    prometheus::Counter* count;
  };

  prometheus::Family<prometheus::Counter>& Counters(const char* name, const char* help);
  prometheus::Family<prometheus::Gauge>& Gauges(const char* name, const char* help);
  std::optional<ServerUse> Use() const;
  void SetRouteCost(const ServedModel& model, const DeviceInfo& device, const RouteCost& cost);

  const bool on_;
  prometheus::Registry registry_;
  HistogramFamily request_duration_;
  HistogramFamily send_duration_;
  HistogramFamily stage_duration_;
  HistogramFamily request_stage_duration_;
  HistogramFamily batch_rows_;
  HistogramFamily batch_entries_;
  CountFamily batches_;
  CountFamily closed_family_;
  CountFamily rows_;
  CountFamily ignored_features_;
  CountFamily entries_family_;
  CountFamily message_bytes_;
  CountFamily requests_family_;
  CountFamily in_flight_family_;
  CountFamily streams_family_;

  prometheus::Family<prometheus::Gauge>& device_info_;
  prometheus::Family<prometheus::Gauge>& model_state_;
  prometheus::Family<prometheus::Gauge>& model_info_;
  prometheus::Family<prometheus::Gauge>& model_load_;
  prometheus::Family<prometheus::Gauge>& route_cost_;

  std::array<std::array<Count*, kStatusCodes>, kMethods> requests_{};
  std::array<Histogram*, kMethods> durations_{};
  std::array<Histogram*, kMethods> sends_{};  // null where gRPC does not tell
  std::array<Count*, kCloseReasons> closed_{};
  std::vector<Refusal> refusals_;
  Count* in_flight_ = nullptr;
  Count* streams_open_ = nullptr;
  prometheus::Gauge* ready_ = nullptr;
  prometheus::Gauge* models_available_ = nullptr;
  prometheus::Gauge* cpu_fallback_ = nullptr;
  Count* entries_ = nullptr;
  Count* bytes_in_ = nullptr;
  Count* bytes_out_ = nullptr;
  prometheus::Counter* device_failures_ = nullptr;
  prometheus::Counter* slow_requests_ = nullptr;
  std::atomic<uint64_t> failures_seen_{0};

  const std::unique_ptr<TritonMetrics> triton_;
  std::vector<DeviceMetrics> devices_;
  std::vector<std::string> device_ids_;
  std::vector<std::unique_ptr<ModelMetrics>> models_;

  mutable std::mutex use_mutex_;  // held while it is asked for
  std::function<ServerUse()> ask_for_use_;
  std::optional<ServerUse> kept_use_;
  mutable std::mutex sources_mutex_;
  std::vector<MetricSource*> sources_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_METRICS_H_
