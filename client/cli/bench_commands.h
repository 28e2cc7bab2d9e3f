// The commands of `widelane bench`, and what they share.

#ifndef WIDELANE_CLIENT_CLI_BENCH_COMMANDS_H_
#define WIDELANE_CLIENT_CLI_BENCH_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "client/cli/command.h"

namespace widelane::cli {

void AddBenchEngineCommand(CLI::App& bench, Run& run);
void AddBenchModelCommand(CLI::App& bench, Run& run);
void AddBenchServerCommand(CLI::App& bench, Run& run);

void AddJsonOption(CLI::App& command, std::string& json);
// Prints `table` and writes `json` to the file `path`, if there is one; or prints nothing but JSON, if `path` is "-".
absl::Status WriteBenchReport(const std::string& table, const nlohmann::ordered_json& json, const std::string& path);

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_COMMANDS_H_
