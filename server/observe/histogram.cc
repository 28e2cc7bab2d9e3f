#include "server/observe/histogram.h"

#include <cstdlib>
#include <limits>
#include <utility>

#include "server/observe/metric_family.h"

namespace widelane {

Buckets::Buckets(const std::vector<uint64_t>& bounds) : size_(bounds.size() + 1) {
  // Wrong bounds would count wrongly without a word.
  if (bounds.size() > kMostBounds) std::abort();
  for (size_t i = 1; i < bounds.size(); ++i) {
    if (bounds[i] / 2 < bounds[i - 1]) std::abort();
  }
  bounds_.fill(std::numeric_limits<uint64_t>::max());
  std::copy(bounds.begin(), bounds.end(), bounds_.begin());
  for (size_t width = 1; width < kWidths; ++width) {
    const uint64_t least = uint64_t{1} << (width - 1);
    first_[width] = static_cast<uint8_t>(std::lower_bound(bounds.begin(), bounds.end(), least) - bounds.begin());
  }
}

prometheus::ClientMetric::Histogram Histogram::Collect(double unit) const {
  prometheus::ClientMetric::Histogram result;
  uint64_t cumulative = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    for (const Stripe& stripe : stripes_) cumulative += stripe.counts[i].load(std::memory_order_relaxed);
    const bool last = i + 1 == buckets_.size();
    // Divided, not multiplied: 1,000 ns are to be shown as 1e-06.
    const double bound = last ? std::numeric_limits<double>::infinity() : static_cast<double>(buckets_.bound(i)) / unit;
    result.bucket.push_back({cumulative, bound});
  }
  result.sample_count = cumulative;
  for (const Stripe& stripe : stripes_) result.sample_sum += stripe.sum.load(std::memory_order_relaxed);
  result.sample_sum /= unit;
  return result;
}

HistogramFamily::HistogramFamily(std::string name, std::string help, const std::vector<uint64_t>& bounds, double unit)
    : name_(std::move(name)), help_(std::move(help)), buckets_(bounds), unit_(unit) {}

Histogram& HistogramFamily::Add(std::vector<prometheus::ClientMetric::Label> labels) {
  const std::lock_guard lock(mutex_);
  return children_.emplace_back(std::move(labels), buckets_).histogram;
}

prometheus::MetricFamily HistogramFamily::Collect() const {
  prometheus::MetricFamily family = MakeFamily(name_, help_, prometheus::MetricType::Histogram);
  const std::lock_guard lock(mutex_);
  for (const Child& child : children_) {
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label = child.labels;
    metric.histogram = child.histogram.Collect(unit_);
  }
  return family;
}

std::vector<uint64_t> DurationBounds() {
  constexpr uint64_t kLongest = 10'000'000'000;
  std::vector<uint64_t> bounds;
  for (uint64_t decade = 1000; decade < kLongest; decade *= 10) {
    for (const uint64_t step : {1, 2, 5}) bounds.push_back(step * decade);
  }
  bounds.push_back(kLongest);
  return bounds;
}

std::vector<uint64_t> SizeBounds() {
  constexpr uint64_t kLargest = 4'194'304;
  std::vector<uint64_t> bounds;
  for (uint64_t bound = 1; bound <= kLargest; bound *= 4) bounds.push_back(bound);
  return bounds;
}

}  // namespace widelane
