// The `widelane` command. Exit status: 0, 1 when something failed, 2 for a wrong command line.

#include <cstdio>
#include <exception>
#include <string>

#include "client/cli/command.h"

namespace {

int Main(int argc, char** argv) {
  CLI::App app("Scores sparse rows on a Widelane server, and makes model files for it.", "widelane");
  app.set_version_flag("--version", "widelane " WIDELANE_VERSION);
  app.require_subcommand(1);
  widelane::cli::Run run;
  widelane::cli::AddScoreCommand(app, run);
  widelane::cli::AddModelsCommand(app, run);
  widelane::cli::AddImportCommand(app, run);
  widelane::cli::AddInspectCommand(app, run);
  widelane::cli::AddHealthcheckCommand(app, run);
  widelane::cli::AddBenchCommand(app, run);
  widelane::cli::AddTraceCommand(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const absl::Status status = run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "widelane: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "widelane: %s\n", error.what());
    return 1;
  }
}
