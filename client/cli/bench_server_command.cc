#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/bench_commands.h"
#include "client/cli/bench_load.h"
#include "client/cli/bench_requests.h"
#include "client/cli/bench_server_report.h"
#include "client/cli/bench_shape.h"
#include "client/cli/progress.h"
#include "client/cli/tls_options.h"

namespace widelane::cli {
namespace {

// The command line.
struct Arguments {
  BenchShape shape;
  RequestOptions requests;
  LoadOptions load;
  double duration_s = std::chrono::duration<double>(LoadOptions{}.duration).count();
  double warm_up_s = std::chrono::duration<double>(LoadOptions{}.warm_up).count();
  int64_t deadline_ms = LoadOptions{}.deadline.count();
  TlsArguments tls;
  std::string json;
};

std::chrono::nanoseconds Nanoseconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

// What the arguments say together. Errors: INVALID_ARGUMENT.
absl::Status Complete(Arguments& arguments) {
  absl::StatusOr<BenchProfile> profile = ProfileOf(arguments.shape);
  if (!profile.ok()) return profile.status();
  arguments.requests.profile = *std::move(profile);
  arguments.requests.seed = arguments.shape.seed;
  arguments.load.seed = arguments.shape.seed;
  arguments.load.duration = Nanoseconds(arguments.duration_s);
  arguments.load.warm_up = Nanoseconds(arguments.warm_up_s);
  arguments.load.deadline = std::chrono::milliseconds(arguments.deadline_ms);
  absl::StatusOr<LoadOptions> load = FillIn(arguments.load);
  if (!load.ok()) return load.status();
  arguments.load = *std::move(load);
  return CheckRequests(arguments.requests);
}

absl::Status BenchServer(const Arguments& arguments) {
  LoadOptions load = arguments.load;
  auto tls = ReadTlsOptions(arguments.tls);
  if (!tls.ok()) return tls.status();
  load.tls = *std::move(tls);
  const std::vector<grpc::Slice> requests = EncodeRequests(arguments.requests);
  absl::StatusOr<LoadResult> result = absl::UnknownError("");
  {
    constexpr uint64_t kTotal = 1000;
    Progress progress(kTotal, true);
    result = RunLoad(load, requests, arguments.requests.rows, [&](double share, uint64_t calls) {
      progress.Update(static_cast<uint64_t>(share * kTotal), calls * arguments.requests.rows);
    });
  }
  if (!result.ok()) return result.status();
  absl::Status written = WriteBenchReport(LoadTable(arguments.requests, load, *result),
                                          LoadJson(arguments.requests, load, *result), arguments.json);
  if (!written.ok()) return written;
  const LoadCounts& counts = result->total->counts();
  if (counts.answered > 0 && counts.wrong_rows == 0 && counts.different == 0) return absl::OkStatus();
  return absl::UnknownError(result->total->first_error().empty() ? "no call was answered in time"
                                                                 : result->total->first_error());
}

void AddRequestOptions(CLI::App& command, RequestOptions& requests) {
  command.add_option("-m,--model", requests.model, "Name of the model")->required();
  command.add_option("--version", requests.version, "Version of the model; else the newest");
  command.add_option("--rows", requests.rows, "Rows of a call")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 24))
      ->capture_default_str();
  command.add_flag("--context", requests.context, "Send what rows share once; else it is written out in each row");
  command.add_option("--priority", requests.priority, "Of the requests")
      ->check(CLI::IsMember({"high", "normal", "low"}));
}

void AddLoadOptions(CLI::App& command, Arguments& arguments) {
  constexpr size_t kMost = 1 << 20;
  constexpr double kMostSeconds = 86400;
  LoadOptions& load = arguments.load;
  command.add_option("-a,--address", load.address, "Server, HOST:PORT or unix:PATH")->capture_default_str();
  AddTlsOptions(command, arguments.tls);
  command.add_option("--concurrency", load.concurrency, "Calls in flight, in all; with --rate the most")
      ->check(CLI::Range(size_t{1}, kMost))
      ->capture_default_str();
  command.add_option("--rate", load.rate, "Send this many calls a second whatever the answers do (an open loop)")
      ->check(CLI::Range(0.001, 1e8));
  CLI::Option* stream = command.add_flag("--stream", load.stream, "Send requests on ScoreStream, not as calls");
  command.add_option("--streams", load.streams, "Streams; default: one a connection")
      ->check(CLI::Range(size_t{1}, kMost))
      ->needs(stream);
  command.add_option("--connections", load.connections, "Connections; default: one a thread")
      ->check(CLI::Range(size_t{1}, size_t{4096}));
  command.add_option("--threads", load.threads, "Threads of this side; default: one for every four cores")
      ->check(CLI::Range(size_t{1}, size_t{1024}));
  command.add_option("--deadline-ms", arguments.deadline_ms, "Deadline of each call; default: none")
      ->check(CLI::Range(1, 86'400'000));
  command.add_option("--duration", arguments.duration_s, "Seconds that are measured")
      ->check(CLI::Range(0.01, kMostSeconds))
      ->capture_default_str();
  command.add_option("--warm-up", arguments.warm_up_s, "Seconds before them")
      ->check(CLI::Range(0.0, kMostSeconds))
      ->capture_default_str();
}

}  // namespace

void AddBenchServerCommand(CLI::App& bench, Run& run) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = bench.add_subcommand("server", "Puts load on a server that serves the model of a profile");
  AddRequestOptions(*command, arguments->requests);
  AddShapeOptions(*command, arguments->shape);
  AddLoadOptions(*command, *arguments);
  AddJsonOption(*command, arguments->json);
  command->callback([arguments, &run] {
    if (absl::Status status = Complete(*arguments); !status.ok()) {
      throw CLI::ValidationError(std::string(status.message()));
    }
    run = [arguments] { return BenchServer(*arguments); };
  });
}

}  // namespace widelane::cli
