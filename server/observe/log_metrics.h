// How much the process logs. There is one log, so there is one of these.

#ifndef WIDELANE_SERVER_OBSERVE_LOG_METRICS_H_
#define WIDELANE_SERVER_OBSERVE_LOG_METRICS_H_

#include <spdlog/common.h>

#include <vector>

#include "prometheus/metric_family.h"

namespace widelane {

// Any thread.
void CountLine(spdlog::level::level_enum level);
void CountLineHeldBack();
std::vector<prometheus::MetricFamily> CollectLogMetrics();

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_LOG_METRICS_H_
