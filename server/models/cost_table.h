// What batches of a model cost on each route, in words for the log.

#ifndef WIDELANE_SERVER_MODELS_COST_TABLE_H_
#define WIDELANE_SERVER_MODELS_COST_TABLE_H_

#include <string>
#include <vector>

#include "widelane/engine/device.h"
#include "widelane/engine/engine.h"

namespace widelane {

// What a route's cost is called beside others: "all" outputs of a row, or the "best" of them.
inline const char* ResultsName(const BatchKind& kind) { return kind.best > 0 ? "best" : "all"; }

// A table, its head first; no lines without costs. Devices that cost the same share a line. The last columns are the
// times of some batches of 40 entries a row, by the line alone.
std::vector<std::string> CostTableLines(const std::vector<RouteCost>& costs, const std::vector<DeviceInfo>& devices);

}  // namespace widelane

#endif  // WIDELANE_SERVER_MODELS_COST_TABLE_H_
