#include "client/cli/bench_p100.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/bench_report.h"
#include "client/cli/microseconds.h"
#include "client/cli/table.h"

namespace widelane::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string CellOf(const StageTimes& stages, Stage stage) { return FormatMicroseconds(Microseconds(stages[stage])); }

std::string TotalTable(const BenchSession& session, const std::vector<P100Line>& lines) {
  std::vector<std::vector<std::string>> rows = {{"BATCH", "CALLS"}};
  for (const SessionBackend& entry : session.backends()) {
    rows[0].push_back(absl::StrCat(absl::AsciiStrToUpper(BackendName(entry.kind)), " MS"));
  }
  for (const P100Line& line : lines) {
    std::vector<std::string> row = {absl::StrCat(line.rows), absl::StrCat(line.calls)};
    for (const CallSummary& one : line.backends) {
      row.push_back(one.calls == 0 ? "-" : absl::StrFormat("%.3f", one.total * 1e-3));
    }
    rows.push_back(std::move(row));
  }
  return FormatTable(rows);
}

// Of the most calls only: more of them say the same.
std::string CallTable(const BenchSession& session, const std::vector<P100Line>& lines) {
  std::vector<std::vector<std::string>> rows = {
      {"BATCH", "BACKEND", "US A CALL", "LAUNCH", "TRANSFER IN", "COMPUTE", "TRANSFER OUT", "ROUTE"}};
  for (const P100Line& line : lines) {
    if (line.calls != kP100Calls.back()) continue;
    for (size_t b = 0; b < line.backends.size(); ++b) {
      const CallSummary& one = line.backends[b];
      if (one.calls == 0) continue;
      rows.push_back({absl::StrCat(line.rows), BackendName(session.backends()[b].kind), FormatMicroseconds(one.median),
                      CellOf(one.stages, Stage::kLaunch), CellOf(one.stages, Stage::kTransferIn),
                      CellOf(one.stages, Stage::kCompute), CellOf(one.stages, Stage::kTransferOut), one.route()});
    }
  }
  return FormatTable(rows);
}

}  // namespace

absl::StatusOr<std::vector<P100Line>> MeasureP100(BenchSession& session, const BenchSession::Tell& tell) {
  std::vector<P100Line> lines;
  uint64_t scored = 0;
  for (const uint64_t rows : session.options().rows) {
    for (const size_t calls : kP100Calls) {
      absl::StatusOr<std::vector<CallSummary>> backends = session.Time(rows, calls);
      if (!backends.ok()) return backends.status();
      for (const CallSummary& one : *backends) scored += rows * one.calls;
      lines.push_back({rows, calls, *std::move(backends)});
      tell(lines.size(), session.options().rows.size() * kP100Calls.size(), scored);
    }
  }
  return lines;
}

std::string P100Table(const BenchSession& session, const std::vector<P100Line>& lines) {
  return absl::StrCat("All calls:\n", TotalTable(session, lines), "\nOne call of ", kP100Calls.back(), " (medians):\n",
                      CallTable(session, lines));
}

Json P100Json(const BenchSession& session, const std::vector<P100Line>& lines) {
  Json table = Json::array();
  for (const P100Line& line : lines) {
    for (size_t b = 0; b < line.backends.size(); ++b) {
      const CallSummary& one = line.backends[b];
      if (one.calls == 0) continue;
      table.push_back({{"backend", BackendName(session.backends()[b].kind)},
                       {"rows", line.rows},
                       {"calls", line.calls},
                       {"total_us", one.total},
                       {"median_us", one.median},
                       {"route", one.route()},
                       {"stages_us", StagesJson(one.stages)}});
    }
  }
  return table;
}

}  // namespace widelane::cli
