// The standard process_* metrics, read from /proc when they are asked for. What cannot be read is left out.

#ifndef WIDELANE_SERVER_OBSERVE_PROCESS_METRICS_H_
#define WIDELANE_SERVER_OBSERVE_PROCESS_METRICS_H_

#include <vector>

#include "prometheus/metric_family.h"

namespace widelane {

std::vector<prometheus::MetricFamily> CollectProcessMetrics();

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_PROCESS_METRICS_H_
