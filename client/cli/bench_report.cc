#include "client/cli/bench_report.h"

#include <chrono>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/bench_memory.h"
#include "client/cli/microseconds.h"
#include "client/cli/table.h"
#include "widelane/engine/usable_cores.h"

namespace widelane::cli {
namespace {

using Json = nlohmann::ordered_json;

// Three decimals are a nanosecond; more would be noise.
double Rounded(double number) { return std::round(number * 1e3) / 1e3; }

double RowsPerSecond(const BenchMeasurement& one) { return static_cast<double>(one.rows) * 1e6 / one.summary.median; }

double NanosecondsPerEntry(const BenchMeasurement& one) {
  return one.entries == 0 ? 0 : one.summary.median * 1e3 / static_cast<double>(one.entries);
}

std::string ShortRate(double rate) {
  if (rate >= 1e6) return absl::StrFormat("%.1f M", rate / 1e6);
  if (rate >= 1e3) return absl::StrFormat("%.1f k", rate / 1e3);
  return absl::StrFormat("%.1f", rate);
}

std::string StageCell(const StageTimes& stages, Stage stage) {
  const double time = Microseconds(stages[stage]);
  return time == 0 ? "-" : FormatMicroseconds(time);
}

Json DevicesJson(const Engine& engine) {
  Json devices = Json::array();
  for (const DeviceInfo& device : engine.devices()) {
    devices.push_back({{"id", device.id}, {"name", device.name}, {"index", device.index}});
  }
  return devices;
}

Json MemoryJson(const BenchBackend& backend) {
  const BenchMemory& memory = backend.memory();
  const EngineOptions& options = backend.engine().options();
  size_t gpus = 0;
  for (const DeviceInfo& device : backend.engine().devices()) gpus += static_cast<size_t>(device.index >= 0);
  return {{"host_before", memory.host_before},
          {"host_engine", memory.host_engine},
          {"host_loaded", memory.host_loaded},
          {"host_peak", memory.host_peak},
          {"host_now", HostMemoryNow()},
          {"device_engine", memory.device_engine},
          {"device_loaded", memory.device_loaded},
          {"weights", backend.model()->model().weight_bytes()},
          {"gpus", gpus},
          {"slabs", options.slabs},
          {"slab_rows", options.slab.rows},
          {"slab_entries", options.slab.entries},
          {"slab_results", options.slab.results},
          {"lanes_on_gpu", options.lanes},
          {"lane_bytes", options.lane_bytes}};
}

Json CostsJson(const LoadedModel& model) {
  Json costs = Json::array();
  for (const RouteCost& one : model.costs()) {
    costs.push_back({{"route", kRouteNames[static_cast<size_t>(one.route)]},
                     {"device", one.device},
                     {"values", kValuesNames[static_cast<size_t>(one.kind.values)]},
                     {"best", one.kind.best},
                     {"fixed_ns", Rounded(one.cost.fixed_ns)},
                     {"row_ns", Rounded(one.cost.row_ns)},
                     {"entry_ns", Rounded(one.cost.entry_ns)}});
  }
  return costs;
}

Json RoutesJson(const CallSummary& summary) {
  Json routes = Json::object();
  for (size_t r = 0; r < kRoutes; ++r) {
    if (summary.routes[r] > 0) routes[kRouteNames[r]] = summary.routes[r];
  }
  return routes;
}

Json OneJson(const BenchMeasurement& one) {
  Json json = {{"rows", one.rows},
               {"entries", one.entries},
               {"calls", one.summary.calls},
               {"median_us", Rounded(one.summary.median)},
               {"min_us", Rounded(one.summary.min)},
               {"p10_us", Rounded(one.summary.p10)},
               {"p90_us", Rounded(one.summary.p90)},
               {"rows_per_s", Rounded(RowsPerSecond(one))},
               {"ns_per_entry", Rounded(NanosecondsPerEntry(one))},
               {"bytes_in", one.bytes.in},
               {"bytes_out", one.bytes.out},
               {"route", one.summary.route()},
               {"routes", RoutesJson(one.summary)},
               {"stages_us", StagesJson(one.summary.stages)},
               {"checksum", absl::StrFormat("%016x", one.checksum)}};
  if (one.bus.has_value()) {
    json["bus"] = {{"in_us", Rounded(Microseconds(one.bus->to_device))},
                   {"out_us", Rounded(Microseconds(one.bus->to_host))}};
  }
  return json;
}

}  // namespace

std::string FormatMicroseconds(double microseconds) {
  if (microseconds >= 100) return absl::StrFormat("%.0f", microseconds);
  if (microseconds >= 10) return absl::StrFormat("%.1f", microseconds);
  return absl::StrFormat("%.2f", microseconds);
}

Json StagesJson(const StageTimes& stages) {
  Json json = Json::object();
  for (size_t s = 0; s < kStages; ++s) {
    if (stages.time[s].count() > 0) json[kStageNames[s]] = Rounded(Microseconds(stages.time[s]));
  }
  return json;
}

std::string DescribeSession(const BenchSession& session) {
  const BenchProfile& profile = session.options().profile;
  std::string text = absl::StrFormat(
      "%s: %d features x %d outputs, %s weights, %d entries a row, values %s, %s%s; %d inputs in turn%s\n",
      profile.name, profile.features, profile.outputs, WeightTypeName(profile.weights), profile.entries_per_row,
      kValuesNames[static_cast<size_t>(profile.values)],
      profile.zipf == 0 ? "uniform" : absl::StrFormat("Zipf %g", profile.zipf),
      profile.best > 0 ? absl::StrCat(", best ", profile.best) : "", session.inputs(),
      session.options().plain ? ", from plain arrays" : "");
  for (const SessionBackend& entry : session.backends()) {
    if (entry.backend == nullptr) continue;
    absl::StrAppend(&text, BackendName(entry.kind), ":");
    for (const DeviceInfo& device : entry.backend->engine().devices()) absl::StrAppend(&text, " ", device.name, ";");
    text.back() = '\n';
  }
  return text;
}

Json SessionJson(const BenchSession& session) {
  const BenchOptions& options = session.options();
  const BenchProfile& profile = options.profile;
  Json json = {{"command", "bench engine"}, {"cores", UsableCores()}};
  json["profile"] = {{"name", profile.name},
                     {"features", profile.features},
                     {"outputs", profile.outputs},
                     {"entries_per_row", profile.entries_per_row},
                     {"best", profile.best},
                     {"weights", WeightTypeName(profile.weights)},
                     {"values", kValuesNames[static_cast<size_t>(profile.values)]},
                     {"zipf", profile.zipf},
                     {"seed", options.seed}};
  json["plain"] = options.plain;
  json["route"] = kRouteNames[static_cast<size_t>(options.route)];
  json["inputs"] = session.inputs();
  return json;
}

std::string MeasurementTable(const BenchSession& session, const BackendMeasurements& measurements) {
  std::vector<std::vector<std::string>> rows = {{"BACKEND", "ROWS", "US", "P10", "P90", "ROWS/S", "NS/ENTRY", "KB IN",
                                                 "BUS US", "ROUTE", "PACK", "LAUNCH", "IN", "COMPUTE", "OUT"}};
  for (size_t b = 0; b < measurements.size(); ++b) {
    for (const BenchMeasurement& one : measurements[b]) {
      const CallSummary& summary = one.summary;
      rows.push_back({BackendName(session.backends()[b].kind), absl::StrCat(one.rows),
                      FormatMicroseconds(summary.median), FormatMicroseconds(summary.p10),
                      FormatMicroseconds(summary.p90), ShortRate(RowsPerSecond(one)),
                      absl::StrFormat("%.2f", NanosecondsPerEntry(one)),
                      absl::StrFormat("%.1f", static_cast<double>(one.bytes.in) * 1e-3),
                      one.bus.has_value() ? FormatMicroseconds(Microseconds(one.bus->to_device)) : "-",
                      summary.route().empty() ? "-" : summary.route(), StageCell(summary.stages, Stage::kPack),
                      StageCell(summary.stages, Stage::kLaunch), StageCell(summary.stages, Stage::kTransferIn),
                      StageCell(summary.stages, Stage::kCompute), StageCell(summary.stages, Stage::kTransferOut)});
    }
  }
  return FormatTable(rows);
}

Json MeasurementJson(const BenchSession& session, const BackendMeasurements& measurements) {
  Json backends = Json::array();
  for (size_t b = 0; b < measurements.size(); ++b) {
    const SessionBackend& entry = session.backends()[b];
    Json json = {{"name", BackendName(entry.kind)}};
    if (entry.backend == nullptr) {
      json["left_out"] = entry.left_out;
    } else {
      json["devices"] = DevicesJson(entry.backend->engine());
      json["fallback_reason"] = entry.backend->engine().fallback_reason();
      json["device_failures"] = entry.backend->engine().device_failures();
      json["sharded"] = entry.backend->model()->sharded();
      json["memory"] = MemoryJson(*entry.backend);
      json["costs"] = CostsJson(*entry.backend->model());
      json["results"] = Json::array();
      for (const BenchMeasurement& one : measurements[b]) json["results"].push_back(OneJson(one));
    }
    backends.push_back(std::move(json));
  }
  return backends;
}

std::string Remarks(const BenchSession& session) {
  std::string text;
  for (const SessionBackend& entry : session.backends()) {
    const std::string name = absl::StrCat("backend ", BackendName(entry.kind), ": ");
    if (entry.backend == nullptr) {
      absl::StrAppend(&text, name, "left out, ", entry.left_out, "\n");
      continue;
    }
    const Engine& engine = entry.backend->engine();
    if (!engine.fallback_reason().empty()) absl::StrAppend(&text, name, "no GPU, ", engine.fallback_reason(), "\n");
    if (!engine.left_out().empty()) absl::StrAppend(&text, name, engine.left_out(), "\n");
    if (const uint64_t failures = engine.device_failures(); failures > 0) {
      absl::StrAppend(&text, name, "a GPU FAILED; the CPU scored ", failures, " pieces in its place\n");
    }
  }
  return text;
}

}  // namespace widelane::cli
