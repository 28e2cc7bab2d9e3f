#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/bench_commands.h"
#include "client/cli/bench_p100.h"
#include "client/cli/bench_report.h"
#include "client/cli/bench_session.h"
#include "client/cli/bench_shape.h"
#include "client/cli/progress.h"
#include "widelane/engine/device.h"

namespace widelane::cli {
namespace {

// The command line, as text.
struct Arguments {
  BenchShape shape;
  std::vector<uint64_t> rows;
  std::vector<std::string> backends;
  std::optional<size_t> calls;
  std::string devices;
  std::optional<size_t> threads;
  std::optional<size_t> lane_bytes;
  std::string json;
  std::string table;
  bool plain = false;
  std::string route = "auto";
};

absl::StatusOr<std::vector<int>> GpusOf(const std::string& text) {
  if (text.empty()) return std::vector<int>{};
  const absl::StatusOr<DeviceSelection> devices = ParseDevices(text);
  if (!devices.ok()) return devices.status();
  if (devices->kind != DeviceSelection::Kind::kList) {
    return absl::InvalidArgumentError(
        absl::StrCat("devices: '", text, "' is no list of GPUs, such as 0,2; --backend chooses between CPU and GPUs"));
  }
  return devices->gpus;
}

absl::StatusOr<BenchOptions> OptionsOf(const Arguments& arguments) {
  BenchOptions options;
  absl::StatusOr<BenchProfile> profile = ProfileOf(arguments.shape);
  if (!profile.ok()) return profile.status();
  options.profile = *std::move(profile);
  for (const std::string& name : arguments.backends) {
    const absl::StatusOr<BackendKind> backend = ParseBackend(name);
    if (!backend.ok()) return backend.status();
    options.backends.push_back(*backend);
  }
  absl::StatusOr<std::vector<int>> gpus = GpusOf(arguments.devices);
  if (!gpus.ok()) return gpus.status();
  options.gpus = *std::move(gpus);
  const absl::StatusOr<Route> route = ParseRoute(arguments.route);
  if (!route.ok()) return route.status();
  options.route = *route;
  options.rows = arguments.rows;
  options.calls = arguments.calls;
  options.threads = arguments.threads;
  options.lane_bytes = arguments.lane_bytes;
  options.plain = arguments.plain;
  options.seed = arguments.shape.seed;
  return options;
}

// What the command line leaves open.
void FillIn(Arguments& arguments) {
  const bool table = !arguments.table.empty();
  if (arguments.backends.empty()) {
    arguments.backends =
        table ? std::vector<std::string>{"cpu", "gpu", "gpus", "auto"} : std::vector<std::string>{"auto"};
  }
  if (!arguments.rows.empty()) return;
  if (table) {
    arguments.rows.assign(kP100Rows.begin(), kP100Rows.end());
  } else {
    arguments.rows = {1, 10, 100, 1'000, 10'000};
  }
}

struct Report {
  std::string table;
  nlohmann::ordered_json json;
};

absl::StatusOr<Report> Measure(BenchSession& session, bool p100) {
  Report report{DescribeSession(session), SessionJson(session)};
  std::optional<Progress> progress;
  const BenchSession::Tell tell = [&](uint64_t done, uint64_t total, uint64_t rows) {
    if (!progress.has_value()) progress.emplace(total, true);
    progress->Update(done, rows);
  };
  if (p100) {
    const absl::StatusOr<std::vector<P100Line>> lines = MeasureP100(session, tell);
    if (!lines.ok()) return lines.status();
    report.table += "\n" + P100Table(session, *lines);
    report.json["backends"] = MeasurementJson(session, BackendMeasurements(session.backends().size()));
    report.json["p100"] = P100Json(session, *lines);
  } else {
    const absl::StatusOr<BackendMeasurements> measurements = session.Measure(tell);
    if (!measurements.ok()) return measurements.status();
    report.table += "\n" + MeasurementTable(session, *measurements);
    report.json["backends"] = MeasurementJson(session, *measurements);
  }
  report.table += Remarks(session);
  return report;
}

absl::Status BenchEngine(const Arguments& arguments) {
  const absl::StatusOr<BenchOptions> options = OptionsOf(arguments);
  if (!options.ok()) return options.status();
  const absl::StatusOr<std::unique_ptr<BenchSession>> session = BenchSession::Create(*options);
  if (!session.ok()) return session.status();
  const absl::StatusOr<Report> report = Measure(**session, !arguments.table.empty());
  if (!report.ok()) return report.status();
  return WriteBenchReport(report->table, report->json, arguments.json);
}

void AddEngine(CLI::App& command, Arguments& arguments) {
  command.add_option("--backend", arguments.backends, absl::StrCat("Any of: ", BackendNames()))
      ->delimiter(',')
      ->default_str("auto");
  command.add_option("--devices", arguments.devices, "GPUs for the backends gpu (the first), gpus and cusparse");
  command.add_option("--threads", arguments.threads, "Threads of the CPU; 0: all usable cores")
      ->check(CLI::Range(size_t{0}, EngineLimits::kMaxCpuThreads));
  command.add_option("--lane-bytes", arguments.lane_bytes, "Device memory for entries; more are cut into chunks")
      ->check(CLI::Range(EngineLimits::kMinLaneBytes, size_t{1} << 40));
  command.add_option("--route", arguments.route, "Way for all batches, instead of the quickest by measured costs")
      ->capture_default_str();
  command.add_flag("--plain", arguments.plain, "Start from CSR arrays, not from packed slabs");
}

}  // namespace

void AddBenchEngineCommand(CLI::App& bench, Run& run) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = bench.add_subcommand("engine", "Measures the engine alone, without a server, on made data");
  command->add_option("--rows", arguments->rows, "Rows of a call, one or several numbers")
      ->delimiter(',')
      ->check(CLI::Range(uint64_t{1}, uint64_t{EngineLimits::kMaxSlabSize}))
      ->default_str("1,10,100,1000,10000");
  CLI::Option* calls = command->add_option("--calls", arguments->calls, "Calls; default: for 0.3 s, at least 20")
                           ->check(CLI::Range(size_t{1}, size_t{10'000'000}));
  AddShapeOptions(*command, arguments->shape);
  AddEngine(*command, *arguments);
  command->add_option("--table", arguments->table, "p100: batches of 10 to 200,000 rows by 10 to 200 calls")
      ->check(CLI::IsMember({"p100"}))
      ->excludes(calls);
  AddJsonOption(*command, arguments->json);
  command->callback([arguments, &run] {
    FillIn(*arguments);
    run = [arguments] { return BenchEngine(*arguments); };
  });
}

}  // namespace widelane::cli
