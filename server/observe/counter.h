// Counters and gauges for paths on which every call adds to several: striped (prometheus-cpp's own are shared by all
// threads).

#ifndef WIDELANE_SERVER_OBSERVE_COUNTER_H_
#define WIDELANE_SERVER_OBSERVE_COUNTER_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "prometheus/client_metric.h"
#include "prometheus/metric_family.h"
#include "server/observe/stripes.h"

namespace widelane {

// A whole number; of a counter it only grows.
using Count = Striped<int64_t>;

// Counts of one name that differ in their labels.
class CountFamily {
 public:
  // `type`: Counter or Gauge. `unit`: what the page shows for 1.
  CountFamily(prometheus::MetricType type, std::string name, std::string help, double unit = 1);

  // A new child; lives as long as the family. Any thread, but not on a path that matters.
  Count& Add(std::vector<prometheus::ClientMetric::Label> labels);
  prometheus::MetricFamily Collect() const;

 private:
  struct Child {
    explicit Child(std::vector<prometheus::ClientMetric::Label> child_labels) : labels(std::move(child_labels)) {}
    std::vector<prometheus::ClientMetric::Label> labels;
    Count count;
  };

  const prometheus::MetricType type_;
  const std::string name_;
  const std::string help_;
  const double unit_;
  mutable std::mutex mutex_;
  std::deque<Child> children_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_COUNTER_H_
