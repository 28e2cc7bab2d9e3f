#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cli/command.h"
#include "client/cli/http_get.h"

namespace widelane::cli {
namespace {

struct Options {
  std::string http = "localhost:8601";
  double seconds = 2;
  std::string output;
};

absl::Status Fetch(const Options& options) {
  // What the server needs on top, to write the first bytes.
  constexpr std::chrono::milliseconds kGrace{10000};
  const std::chrono::milliseconds patience =
      kGrace + std::chrono::milliseconds(static_cast<int64_t>(std::ceil(options.seconds * 1000)));
  // Beside the file, so that nobody takes half of one for a whole.
  const std::string part = options.output + ".part";
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  if (!file) return absl::InvalidArgumentError(absl::StrCat("cannot write ", part));
  const auto write = [&](absl::string_view piece) {
    file.write(piece.data(), static_cast<std::streamsize>(piece.size()));
    return file ? absl::OkStatus() : absl::DataLossError(absl::StrCat("cannot write ", part));
  };
  absl::StatusOr<uint64_t> bytes =
      HttpGet(options.http, absl::StrCat("trace?seconds=", options.seconds), patience, write);
  file.close();
  if (bytes.ok() && (!file || std::rename(part.c_str(), options.output.c_str()) != 0)) {
    bytes = absl::DataLossError(absl::StrCat("cannot write ", options.output));
  }
  if (!bytes.ok()) {
    std::remove(part.c_str());
    return bytes.status();
  }
  std::printf("%s: %llu bytes; open it with ui.perfetto.dev or chrome://tracing\n", options.output.c_str(),
              static_cast<unsigned long long>(*bytes));
  return absl::OkStatus();
}

}  // namespace

void AddTraceCommand(CLI::App& app, Run& run) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("trace", "Records a timeline of a server for Perfetto");
  command->add_option("--http", options->http, "The server's HTTP address, HOST:PORT")->capture_default_str();
  command->add_option("--seconds", options->seconds, "How long to record")
      ->check(CLI::Range(0.001, 60.0))
      ->capture_default_str();
  command->add_option("-o,--output", options->output, "File to write")->required();
  command->callback([options, &run] { run = [options] { return Fetch(*options); }; });
}

}  // namespace widelane::cli
