// Histograms that are striped on the path that observes (prometheus-cpp's own takes a mutex for each observation).

#ifndef WIDELANE_SERVER_OBSERVE_HISTOGRAM_H_
#define WIDELANE_SERVER_OBSERVE_HISTOGRAM_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "prometheus/client_metric.h"
#include "prometheus/metric_family.h"
#include "server/observe/stripes.h"

namespace widelane {

class Histogram {
 public:
  // `bounds` rise, 22 at most; each is the largest value of its bucket. The vector outlives the histogram.
  explicit Histogram(const std::vector<double>& bounds) : bounds_(bounds), stripes_(kStripes) {}

  // Any thread. Negative values count as 0.
  void Observe(double value);
  // Never falls along the bounds, and its count is that of the last bucket, whatever is observed meanwhile.
  prometheus::ClientMetric::Histogram Collect() const;

 private:
  static constexpr size_t kMostBounds = 22;
  struct alignas(64) Stripe {
    std::array<std::atomic<uint64_t>, kMostBounds + 1> counts{};
    std::atomic<double> sum{0};
  };

  const std::vector<double>& bounds_;
  std::vector<Stripe> stripes_;
};

// Histograms of one name that differ in their labels.
class HistogramFamily {
 public:
  HistogramFamily(std::string name, std::string help, std::vector<double> bounds);

  // A new child; lives as long as the family. Any thread, but not on a path that matters.
  Histogram& Add(std::vector<prometheus::ClientMetric::Label> labels);
  prometheus::MetricFamily Collect() const;

 private:
  struct Child {
    Child(std::vector<prometheus::ClientMetric::Label> child_labels, const std::vector<double>& bounds)
        : labels(std::move(child_labels)), histogram(bounds) {}
    std::vector<prometheus::ClientMetric::Label> labels;
    Histogram histogram;
  };

  const std::string name_;
  const std::string help_;
  const std::vector<double> bounds_;
  mutable std::mutex mutex_;
  std::deque<Child> children_;
};

// 1 us to 10 s in steps of 1, 2, 5.
std::vector<double> DurationBounds();
// Powers of 4 from 1 to 4^11 (4,194,304).
std::vector<double> SizeBounds();

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_HISTOGRAM_H_
