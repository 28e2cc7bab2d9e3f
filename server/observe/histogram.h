// Histograms that are striped on the path that observes (prometheus-cpp's own takes a mutex for each observation). What
// is observed are whole numbers, times as nanoseconds; the page shows them in the unit of their family.

#ifndef WIDELANE_SERVER_OBSERVE_HISTOGRAM_H_
#define WIDELANE_SERVER_OBSERVE_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
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

// Which bucket a value belongs to.
class Buckets {
 public:
  static constexpr size_t kMostBounds = 22;

  // `bounds`: the largest value of each bucket, kMostBounds at most; each is at least twice the one before. A last
  // bucket takes what is above all of them.
  explicit Buckets(const std::vector<uint64_t>& bounds);

  // Among the values of one bit width there is one bound at most, so one look tells.
  size_t Of(uint64_t value) const {
    const size_t first = first_[static_cast<size_t>(std::bit_width(value))];
    return first + (bounds_[first] < value ? 1 : 0);
  }
  size_t size() const { return size_; }
  // Of the last bucket: the largest number there is.
  uint64_t bound(size_t bucket) const { return bounds_[bucket]; }

 private:
  static constexpr size_t kWidths = 65;

  std::array<uint8_t, kWidths> first_{};  // by bit width: the bucket of the least value that has it
  std::array<uint64_t, kMostBounds + 1> bounds_{};
  size_t size_;
};

class Histogram {
 public:
  // The buckets outlive the histogram.
  explicit Histogram(const Buckets& buckets) : buckets_(buckets), stripes_(kStripes) {}

  // Any thread; `stripe` is its OwnStripe(). Negative values count as 0.
  void Observe(int64_t value, size_t stripe) {
    const auto amount = static_cast<uint64_t>(std::max<int64_t>(value, 0));
    Stripe& own = stripes_[stripe];
    AddToCell(own.counts[buckets_.Of(amount)], uint64_t{1}, stripe);
    AddToCell(own.sum, static_cast<double>(amount), stripe);
  }
  // Never falls along the bounds, and its count is that of the last bucket, whatever is observed meanwhile. `unit`:
  // what the page shows as 1.
  prometheus::ClientMetric::Histogram Collect(double unit) const;

 private:
  struct alignas(64) Stripe {
    std::array<std::atomic<uint64_t>, Buckets::kMostBounds + 1> counts{};
    std::atomic<double> sum{0};  // a whole number of nanoseconds would overflow after some years of requests
  };

  const Buckets& buckets_;
  std::vector<Stripe> stripes_;
};

// Histograms of one name that differ in their labels.
class HistogramFamily {
 public:
  HistogramFamily(std::string name, std::string help, const std::vector<uint64_t>& bounds, double unit = 1);

  // A new child; lives as long as the family. Any thread, but not on a path that matters.
  Histogram& Add(std::vector<prometheus::ClientMetric::Label> labels);
  prometheus::MetricFamily Collect() const;

 private:
  struct Child {
    Child(std::vector<prometheus::ClientMetric::Label> child_labels, const Buckets& buckets)
        : labels(std::move(child_labels)), histogram(buckets) {}
    std::vector<prometheus::ClientMetric::Label> labels;
    Histogram histogram;
  };

  const std::string name_;
  const std::string help_;
  const Buckets buckets_;
  const double unit_;
  mutable std::mutex mutex_;
  std::deque<Child> children_;
};

// Nanoseconds, shown as seconds.
inline constexpr double kSecond = 1e9;
// 1 us to 10 s in steps of 1, 2, 5.
std::vector<uint64_t> DurationBounds();
// Powers of 4 from 1 to 4^11 (4,194,304).
std::vector<uint64_t> SizeBounds();

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_HISTOGRAM_H_
