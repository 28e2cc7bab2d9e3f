#include "client/cli/bench_server_report.h"

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/bench_report.h"
#include "client/cli/microseconds.h"
#include "client/cli/table.h"

namespace widelane::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Share {
  const char* name;
  double share;
};
constexpr std::array<Share, 4> kShares = {{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}}};

double Seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }
double PerSecond(uint64_t count, const LoadOptions& load) {
  return static_cast<double>(count) / Seconds(load.duration);
}

std::string Describe(const RequestOptions& requests, const LoadOptions& load) {
  return absl::StrFormat("%s, %s, %d rows a call%s: %s on %d connections, %d threads\n", load.address,
                         requests.profile.name, requests.rows, requests.context ? " with context" : "",
                         absl::StrCat(load.rate > 0 ? absl::StrFormat("%g calls/s, at most ", load.rate) : "",
                                      load.concurrency, load.stream ? " requests" : " calls", " in flight",
                                      load.stream ? absl::StrCat(" in ", load.streams, " streams") : ""),
                         load.connections, load.threads);
}

std::string Errors(const LoadMeter& total) {
  const LoadCounts& counts = total.counts();
  std::string text;
  const auto add = [&](uint64_t count, const char* what) {
    if (count > 0) absl::StrAppend(&text, count, " ", what, "\n");
  };
  for (size_t code = 0; code < kStatusCodes; ++code) add(counts.failed[code], StatusCodeName(code));
  add(counts.wrong_rows, "replies to ANOTHER NUMBER OF ROWS");
  add(counts.different, "replies DIFFER from the first to the same request");
  if (!total.first_error().empty()) absl::StrAppend(&text, "first error: ", total.first_error(), "\n");
  return text;
}

}  // namespace

std::string LoadTable(const RequestOptions& requests, const LoadOptions& load, const LoadResult& result) {
  const LoadCounts& counts = result.total->counts();
  const LatencyHistogram& latencies = result.total->latencies();
  std::vector<std::vector<std::string>> rows(2);
  const auto add = [&](const char* name, const std::string& value) {
    rows[0].emplace_back(name);
    rows[1].push_back(value);
  };
  add("CALLS/S", absl::StrFormat("%.0f", PerSecond(counts.answered, load)));
  add("ROWS/S", absl::StrFormat("%.0f", PerSecond(counts.answered * requests.rows, load)));
  add("MB/S OUT", absl::StrFormat("%.1f", PerSecond(counts.bytes_out, load) * 1e-6));
  add("MB/S IN", absl::StrFormat("%.1f", PerSecond(counts.bytes_in, load) * 1e-6));
  add("MEAN US", FormatMicroseconds(Microseconds(latencies.mean())));
  for (const Share& one : kShares) {
    add(absl::StrCat("P", one.name + 1).c_str(), FormatMicroseconds(Microseconds(latencies.Percentile(one.share))));
  }
  add("MAX", FormatMicroseconds(Microseconds(latencies.max())));
  return absl::StrCat(Describe(requests, load), "\n", FormatTable(rows), Errors(*result.total));
}

Json LoadJson(const RequestOptions& requests, const LoadOptions& load, const LoadResult& result) {
  const BenchProfile& profile = requests.profile;
  const LoadCounts& counts = result.total->counts();
  const LatencyHistogram& latencies = result.total->latencies();
  Json json = {{"command", "bench server"}, {"address", load.address}, {"model", requests.model}};
  json["profile"] = {{"name", profile.name},
                     {"features", profile.features},
                     {"entries_per_row", profile.entries_per_row},
                     {"best", profile.best},
                     {"seed", requests.seed}};
  json["rows_per_call"] = requests.rows;
  json["context"] = requests.context;
  json["priority"] = requests.priority;
  json["loop"] = load.rate > 0 ? "open" : "closed";
  json["rate"] = load.rate;
  json["stream"] = load.stream;
  json["concurrency"] = load.concurrency;
  json["streams"] = load.stream ? load.streams : 0;
  json["connections"] = load.connections;
  json["threads"] = load.threads;
  json["deadline_ms"] = load.deadline.count();
  json["duration_s"] = Seconds(load.duration);
  json["warm_up_s"] = Seconds(load.warm_up);
  json["calls"] = counts.answered;
  json["calls_per_s"] = PerSecond(counts.answered, load);
  json["rows_per_s"] = PerSecond(counts.answered * requests.rows, load);
  json["bytes_out_per_s"] = PerSecond(counts.bytes_out, load);
  json["bytes_in_per_s"] = PerSecond(counts.bytes_in, load);
  json["latency_us"] = {{"mean", Microseconds(latencies.mean())}};
  for (const Share& one : kShares) json["latency_us"][one.name] = Microseconds(latencies.Percentile(one.share));
  json["latency_us"]["max"] = Microseconds(latencies.max());
  json["errors"] = Json::object();
  for (size_t code = 0; code < kStatusCodes; ++code) {
    if (counts.failed[code] > 0) json["errors"][StatusCodeName(code)] = counts.failed[code];
  }
  json["wrong_rows"] = counts.wrong_rows;
  json["different_replies"] = counts.different;
  json["first_error"] = result.total->first_error();
  json["client_cpu_s"] = result.cpu_seconds;
  return json;
}

}  // namespace widelane::cli
