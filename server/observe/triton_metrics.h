// What we count of requests, once more under the names that Triton's dashboards ask for. An option.

#ifndef WIDELANE_SERVER_OBSERVE_TRITON_METRICS_H_
#define WIDELANE_SERVER_OBSERVE_TRITON_METRICS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "prometheus/client_metric.h"
#include "prometheus/metric_family.h"
#include "server/observe/counter.h"
#include "widelane/engine/stages.h"

namespace widelane {

class LoadedModel;

class TritonMetrics {
 public:
  using Labels = std::vector<prometheus::ClientMetric::Label>;

  // Of one model and version.
  struct Model {
    Labels labels;
    Count& success;
    Count& failure;
    Count& rows;
    Count& batches;
    Count& total;  // these in nanoseconds
    Count& queue;
    Count& input;
    Count& infer;
    Count& output;
  };

  TritonMetrics();

  // Lives as long as the metrics.
  Model& Add(const Labels& labels);
  // The model is served: its batches can be told by it. Once for each model.
  void Bind(const LoadedModel* loaded, Model& model);

  // Any thread, whose OwnStripe() is `stripe`. A request for the model was answered: with results of so many rows, or
  // with an error.
  static void OnScored(Model& model, uint64_t rows, const StageTimes& stages, size_t stripe);
  static void OnFailed(Model& model) { model.failure.Add(1); }
  void OnBatch(const LoadedModel* loaded, size_t stripe);

  // `waiting`: requests of each model that wait.
  std::vector<prometheus::MetricFamily> Collect(const std::map<const LoadedModel*, uint64_t>& waiting) const;

 private:
  using Bound = std::vector<std::pair<const LoadedModel*, Model*>>;  // sorted

  prometheus::MetricFamily Pending(const std::map<const LoadedModel*, uint64_t>& waiting) const;

  CountFamily success_;
  CountFamily failure_;
  CountFamily rows_;
  CountFamily batches_;
  CountFamily total_;
  CountFamily queue_;
  CountFamily input_;
  CountFamily infer_;
  CountFamily output_;
  mutable std::mutex mutex_;
  std::deque<Model> models_;
  // The last has all models that are served. Batches look into it without a lock, so a new one is made for each model,
  // and none is changed or goes.
  std::deque<Bound> all_bound_ = std::deque<Bound>(1);
  std::atomic<const Bound*> bound_{&all_bound_.back()};
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_TRITON_METRICS_H_
