#include "server/models/cost_table.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace widelane {

namespace {

constexpr uint64_t kRowEntries = 40;
constexpr double kNsPerUs = 1000;

struct TableLine {
  RouteCost cost;
  std::string devices;
};

bool CostTheSame(const RouteCost& a, const RouteCost& b) {
  return a.route == b.route && a.kind == b.kind && a.cost.fixed_ns == b.cost.fixed_ns &&
         a.cost.row_ns == b.cost.row_ns && a.cost.entry_ns == b.cost.entry_ns;
}

// UUIDs would make the table too wide.
std::string ShortName(const DeviceInfo& device) {
  return device.index < 0 ? device.id : absl::StrCat("gpu ", device.index);
}

std::vector<TableLine> Gather(const std::vector<RouteCost>& costs, const std::vector<DeviceInfo>& devices) {
  std::vector<TableLine> lines;
  for (const RouteCost& cost : costs) {
    const DeviceInfo& device = devices[cost.device];
    const auto same =
        std::find_if(lines.begin(), lines.end(), [&](const TableLine& line) { return CostTheSame(line.cost, cost); });
    if (same == lines.end()) {
      lines.push_back({cost, ShortName(device)});
    } else {
      absl::StrAppend(&same->devices, ",", device.index);
    }
  }
  return lines;
}

std::string Write(const TableLine& line, int device_width) {
  const Cost& cost = line.cost.cost;
  const auto time = [&cost](uint64_t rows) { return cost.Of(rows, rows * kRowEntries) / kNsPerUs; };
  return absl::StrFormat("%-8s  %-*s  %-7s  %-7s  %9.2f  %9.3f  %11.4f  %10.2f  %10.2f  %12.1f",
                         kRouteNames[static_cast<size_t>(line.cost.route)], device_width, line.devices,
                         kValuesNames[static_cast<size_t>(line.cost.kind.values)], ResultsName(line.cost.kind),
                         cost.fixed_ns / kNsPerUs, cost.row_ns, cost.entry_ns, time(1), time(1000), time(100000));
}

}  // namespace

std::vector<std::string> CostTableLines(const std::vector<RouteCost>& costs, const std::vector<DeviceInfo>& devices) {
  if (costs.empty()) return {};
  const std::vector<TableLine> lines = Gather(costs, devices);
  size_t widest = 6;  // "device"
  for (const TableLine& line : lines) widest = std::max(widest, line.devices.size());
  const int width = static_cast<int>(widest);
  std::vector<std::string> table = {absl::StrFormat("%-8s  %-*s  %-7s  %-7s  %9s  %9s  %11s  %10s  %10s  %12s", "route",
                                                    width, "device", "values", "results", "fixed us", "ns a row",
                                                    "ns an entry", "1 row us", "1k rows us", "100k rows us")};
  for (const TableLine& line : lines) table.push_back(Write(line, width));
  return table;
}

}  // namespace widelane
