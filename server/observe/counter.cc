#include "server/observe/counter.h"

#include <algorithm>
#include <utility>

#include "server/observe/metric_family.h"

namespace widelane {

CountFamily::CountFamily(prometheus::MetricType type, std::string name, std::string help, double unit)
    : type_(type), name_(std::move(name)), help_(std::move(help)), unit_(unit) {}

Count& CountFamily::Add(std::vector<prometheus::ClientMetric::Label> labels) {
  const std::lock_guard lock(mutex_);
  return children_.emplace_back(std::move(labels)).count;
}

prometheus::MetricFamily CountFamily::Collect() const {
  prometheus::MetricFamily family = MakeFamily(name_, help_, type_);
  const std::lock_guard lock(mutex_);
  for (const Child& child : children_) {
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label = child.labels;
    // What one thread adds and another takes away is not read at one moment.
    const double value = static_cast<double>(std::max<int64_t>(child.count.Sum(), 0)) * unit_;
    (type_ == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  }
  return family;
}

}  // namespace widelane
