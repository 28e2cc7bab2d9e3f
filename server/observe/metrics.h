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
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"
#include "server/batching/batcher.h"
#include "server/models/registry.h"
#include "server/observe/counter.h"
#include "server/observe/histogram.h"
#include "server/observe/metric_source.h"
#include "widelane/engine/device.h"
#include "widelane/engine/route.h"

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
  std::array<prometheus::Gauge*, 3> states{};  // by ModelState
};

class Metrics : public BatchObserver {
 public:
  Metrics();

  // Once, when the engine stands and before any batch.
  void SetDevices(const std::vector<DeviceInfo>& devices, bool fell_back);
  // A model that is to be loaded; lives as long as the metrics.
  ModelMetrics* AddModel(const ModelFile& file);
  // The model has left LOADING, after so long; `devices` are the engine's.
  void OnModelState(const ServedModel& model, const std::vector<DeviceInfo>& devices, std::chrono::nanoseconds time);
  void SetReady(bool ready, size_t models_available);
  // Adds what `source` offers to the page; it outlives all calls of Page and Collect.
  void AddSource(MetricSource& source);

  // Around each call, and each message of a stream.
  void OnCallStart();
  void OnCallEnd(Method method, int code, std::chrono::nanoseconds duration);
  // Around each stream.
  void OnStreamStart() { streams_open_->Add(1); }
  void OnStreamEnd() { streams_open_->Add(-1); }
  void OnRefused(const absl::Status& status);
  void OnSlowRequest() { slow_requests_->Increment(); }
  void OnRequestBytes(uint64_t bytes) { bytes_in_->Add(static_cast<int64_t>(bytes)); }
  void OnReplyBytes(uint64_t bytes) { bytes_out_->Add(static_cast<int64_t>(bytes)); }
  void OnEntries(uint64_t entries) { entries_->Add(static_cast<int64_t>(entries)); }
  void OnReplyStage(int device, std::chrono::nanoseconds reply);

  // BatchObserver.
  void OnBatch(const Slab& slab) override;
  void OnSegment(int device, std::chrono::nanoseconds queue, std::chrono::nanoseconds pack) override;
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
    std::array<Histogram*, kStages> stages{};
  };
  struct Refusal {
    const char* reason;
    prometheus::Counter* count;
  };

  prometheus::Family<prometheus::Counter>& Counters(const char* name, const char* help);
  prometheus::Family<prometheus::Gauge>& Gauges(const char* name, const char* help);
  void SetRouteCost(const ServedModel& model, const DeviceInfo& device, const RouteCost& cost);

  prometheus::Registry registry_;
  HistogramFamily request_duration_;
  HistogramFamily stage_duration_;
  HistogramFamily batch_rows_;
  HistogramFamily batch_entries_;
  CountFamily batches_;
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

  std::vector<DeviceMetrics> devices_;
  std::vector<std::unique_ptr<ModelMetrics>> models_;

  mutable std::mutex sources_mutex_;
  std::vector<MetricSource*> sources_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_METRICS_H_
