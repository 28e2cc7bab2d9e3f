// The subcommands of `widelane`. Each adds itself with its options to the application and, when the command line
// chooses it, sets `run` to what is to be done. A failed status becomes one sentence on stderr and exit status 1.

#ifndef WIDELANE_CLIENT_CLI_COMMAND_H_
#define WIDELANE_CLIENT_CLI_COMMAND_H_

#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/tls_options.h"
#include "widelane/client/client.h"

namespace widelane::cli {

using Run = std::function<absl::Status()>;

void AddScoreCommand(CLI::App& app, Run& run);
void AddModelsCommand(CLI::App& app, Run& run);
void AddImportCommand(CLI::App& app, Run& run);
void AddInspectCommand(CLI::App& app, Run& run);
void AddHealthcheckCommand(CLI::App& app, Run& run);
void AddBenchCommand(CLI::App& app, Run& run);
void AddTraceCommand(CLI::App& app, Run& run);

// Where the server is and how long a call to it may take; the same for every command that asks one.
struct ServerOptions {
  std::string address = "localhost:8600";
  double deadline_s = 30;
  TlsArguments tls;
};
void AddServerOptions(CLI::App& command, ServerOptions& options);
absl::StatusOr<std::unique_ptr<client::Client>> Connect(const ServerOptions& options);

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_COMMAND_H_
