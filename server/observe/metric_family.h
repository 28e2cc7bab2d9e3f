// Metrics of one name, before they have samples.

#ifndef WIDELANE_SERVER_OBSERVE_METRIC_FAMILY_H_
#define WIDELANE_SERVER_OBSERVE_METRIC_FAMILY_H_

#include <string>
#include <utility>

#include "prometheus/metric_family.h"

namespace widelane {

inline prometheus::MetricFamily MakeFamily(std::string name, std::string help, prometheus::MetricType type) {
  prometheus::MetricFamily family;
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = type;
  return family;
}

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_METRIC_FAMILY_H_
