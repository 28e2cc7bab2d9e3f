// Metrics that nobody counts for this page: what server, batcher and engine know of themselves, asked when it is made.

#ifndef WIDELANE_SERVER_OBSERVE_USE_METRICS_H_
#define WIDELANE_SERVER_OBSERVE_USE_METRICS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "prometheus/metric_family.h"
#include "server/batching/score_task.h"
#include "widelane/engine/use.h"

namespace widelane {

struct ServerUse {
  // Of requests in the server, as its limits see them.
  uint64_t rows = 0;
  uint64_t request_bytes = 0;
  uint64_t reply_bytes = 0;
  Waiting waiting;
  EngineUse engine;
  std::map<const LoadedModel*, uint64_t> waiting_by_model = {};  // requests; filled if anybody wants to know
};

// `devices`: labels of use.engine.devices.
std::vector<prometheus::MetricFamily> UseMetrics(const ServerUse& use, const std::vector<std::string>& devices);

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_USE_METRICS_H_
