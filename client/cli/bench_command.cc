#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "client/cli/bench_commands.h"

namespace widelane::cli {

void AddJsonOption(CLI::App& command, std::string& json) {
  command.add_option("--json", json, "Also write JSON to this file; -: to stdout, and nothing else there");
}

absl::Status WriteBenchReport(const std::string& table, const nlohmann::ordered_json& json, const std::string& path) {
  if (path == "-") {
    std::cout << json.dump(2) << "\n";
    return absl::OkStatus();
  }
  std::cout << table;
  if (path.empty()) return absl::OkStatus();
  std::ofstream file(path);
  file << json.dump(2) << "\n";
  file.close();
  if (!file) return absl::UnavailableError(absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

void AddBenchCommand(CLI::App& app, Run& run) {
  CLI::App* bench = app.add_subcommand("bench", "Measures speed");
  bench->require_subcommand(1);
  AddBenchEngineCommand(*bench, run);
  AddBenchServerCommand(*bench, run);
  AddBenchModelCommand(*bench, run);
}

}  // namespace widelane::cli
