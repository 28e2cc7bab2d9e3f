// Metrics that somebody else keeps, and that belong on the page.

#ifndef WIDELANE_SERVER_OBSERVE_METRIC_SOURCE_H_
#define WIDELANE_SERVER_OBSERVE_METRIC_SOURCE_H_

#include <vector>

#include "prometheus/metric_family.h"

namespace widelane {

class MetricSource {
 public:
  virtual ~MetricSource() = default;
  // Any thread, several at once. Must not wait for anything that may take long.
  virtual std::vector<prometheus::MetricFamily> Collect() = 0;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_METRIC_SOURCE_H_
