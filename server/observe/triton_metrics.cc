#include "server/observe/triton_metrics.h"

#include <algorithm>
#include <chrono>

#include "server/observe/metric_family.h"

namespace widelane {

namespace {

constexpr auto kCounter = prometheus::MetricType::Counter;
constexpr double kMicroseconds = 1e-3;  // of nanoseconds

}  // namespace

TritonMetrics::TritonMetrics()
    : success_(kCounter, "nv_inference_request_success", "Requests that were answered with results."),
      failure_(kCounter, "nv_inference_request_failure", "Requests that were answered with an error."),
      rows_(kCounter, "nv_inference_count", "Rows that were scored and answered."),
      batches_(kCounter, "nv_inference_exec_count", "Batches that were scored."),
      total_(kCounter, "nv_inference_request_duration_us", "Time of successful requests.", kMicroseconds),
      queue_(kCounter, "nv_inference_queue_duration_us", "Of this, stage queue.", kMicroseconds),
      input_(kCounter, "nv_inference_compute_input_duration_us", "Of this, stages pack and transfer_in.",
             kMicroseconds),
      infer_(kCounter, "nv_inference_compute_infer_duration_us", "Of this, stages launch and compute.", kMicroseconds),
      output_(kCounter, "nv_inference_compute_output_duration_us", "Of this, stages transfer_out and reply.",
              kMicroseconds) {}

TritonMetrics::Model& TritonMetrics::Add(const Labels& labels) {
  const std::lock_guard lock(mutex_);
  models_.push_back({labels, success_.Add(labels), failure_.Add(labels), rows_.Add(labels), batches_.Add(labels),
                     total_.Add(labels), queue_.Add(labels), input_.Add(labels), infer_.Add(labels),
                     output_.Add(labels)});
  return models_.back();
}

void TritonMetrics::Bind(const LoadedModel* loaded, Model& model) {
  const std::lock_guard lock(mutex_);
  Bound& next = all_bound_.emplace_back(all_bound_.back());
  const std::pair<const LoadedModel*, Model*> one(loaded, &model);
  next.insert(std::lower_bound(next.begin(), next.end(), one), one);
  bound_.store(&next, std::memory_order_release);
}

void TritonMetrics::OnScored(Model& model, uint64_t rows, const StageTimes& stages, size_t stripe) {
  std::chrono::nanoseconds total{0};
  for (const std::chrono::nanoseconds time : stages.time) total += time;
  model.success.Add(1, stripe);
  model.rows.Add(static_cast<int64_t>(rows), stripe);
  model.total.Add(total.count(), stripe);
  model.queue.Add(stages[Stage::kQueue].count(), stripe);
  model.input.Add((stages[Stage::kPack] + stages[Stage::kTransferIn]).count(), stripe);
  model.infer.Add((stages[Stage::kLaunch] + stages[Stage::kCompute]).count(), stripe);
  model.output.Add((stages[Stage::kTransferOut] + stages[Stage::kReply]).count(), stripe);
}

void TritonMetrics::OnBatch(const LoadedModel* loaded, size_t stripe) {
  const Bound& bound = *bound_.load(std::memory_order_acquire);
  const auto found = std::lower_bound(bound.begin(), bound.end(), std::pair(loaded, static_cast<Model*>(nullptr)));
  if (found != bound.end() && found->first == loaded) found->second->batches.Add(1, stripe);
}

prometheus::MetricFamily TritonMetrics::Pending(const std::map<const LoadedModel*, uint64_t>& waiting) const {
  prometheus::MetricFamily family =
      MakeFamily("nv_inference_pending_request_count", "Requests that wait for a slab or a device.",
                 prometheus::MetricType::Gauge);
  for (const auto& [loaded, model] : *bound_.load(std::memory_order_acquire)) {
    const auto found = waiting.find(loaded);
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label = model->labels;
    metric.gauge.value = found == waiting.end() ? 0 : static_cast<double>(found->second);
  }
  return family;
}

std::vector<prometheus::MetricFamily> TritonMetrics::Collect(
    const std::map<const LoadedModel*, uint64_t>& waiting) const {
  std::vector<prometheus::MetricFamily> families;
  for (const CountFamily* family :
       {&success_, &failure_, &rows_, &batches_, &total_, &queue_, &input_, &infer_, &output_}) {
    families.push_back(family->Collect());
  }
  families.push_back(Pending(waiting));
  return families;
}

}  // namespace widelane
