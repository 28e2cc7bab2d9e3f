#include "server/observe/histogram.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace widelane {

namespace {

// The first bound that is not below the value. Without branches to guess wrong: times jump from bucket to bucket.
size_t BucketOf(const std::vector<double>& bounds, double value) {
  const double* first = bounds.data();
  for (size_t left = bounds.size(); left > 0;) {
    const size_t half = (left + 1) / 2;
    first += first[half - 1] < value ? half : 0;
    left -= half;
  }
  return static_cast<size_t>(first - bounds.data());
}

}  // namespace

void Histogram::Observe(double value) {
  value = std::max(value, 0.0);
  const size_t bucket = BucketOf(bounds_, value);
  const size_t own = OwnStripe();
  Stripe& stripe = stripes_[own];
  AddToCell(stripe.counts[bucket], uint64_t{1}, own);
  AddToCell(stripe.sum, value, own);
}

prometheus::ClientMetric::Histogram Histogram::Collect() const {
  prometheus::ClientMetric::Histogram result;
  uint64_t cumulative = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) {
    for (const Stripe& stripe : stripes_) cumulative += stripe.counts[i].load(std::memory_order_relaxed);
    const double bound = i < bounds_.size() ? bounds_[i] : std::numeric_limits<double>::infinity();
    result.bucket.push_back({cumulative, bound});
  }
  result.sample_count = cumulative;
  for (const Stripe& stripe : stripes_) result.sample_sum += stripe.sum.load(std::memory_order_relaxed);
  return result;
}

HistogramFamily::HistogramFamily(std::string name, std::string help, std::vector<double> bounds)
    : name_(std::move(name)), help_(std::move(help)), bounds_(std::move(bounds)) {}

Histogram& HistogramFamily::Add(std::vector<prometheus::ClientMetric::Label> labels) {
  const std::lock_guard lock(mutex_);
  return children_.emplace_back(std::move(labels), bounds_).histogram;
}

prometheus::MetricFamily HistogramFamily::Collect() const {
  prometheus::MetricFamily family;
  family.name = name_;
  family.help = help_;
  family.type = prometheus::MetricType::Histogram;
  const std::lock_guard lock(mutex_);
  for (const Child& child : children_) {
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label = child.labels;
    metric.histogram = child.histogram.Collect();
  }
  return family;
}

std::vector<double> DurationBounds() {
  return {1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3,
          5e-3, 1e-2, 2e-2, 5e-2, 0.1,  0.2,  0.5,  1.0,  2.0,  5.0,  10.0};
}

std::vector<double> SizeBounds() {
  constexpr double kLargest = 4'194'304;
  std::vector<double> bounds;
  for (double bound = 1; bound <= kLargest; bound *= 4) bounds.push_back(bound);
  return bounds;
}

}  // namespace widelane
