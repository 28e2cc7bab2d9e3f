#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cli/command.h"

namespace widelane::cli {
namespace {

struct Options {
  ServerOptions server;
  std::string service;
};

absl::Status Check(const Options& options) {
  const auto client = Connect(options.server);
  if (!client.ok()) return client.status();
  const absl::StatusOr<bool> serving = (*client)->IsServing(options.service);
  if (!serving.ok()) return serving.status();
  if (!*serving) return absl::UnavailableError(absl::StrCat(options.server.address, " is not serving"));
  return absl::OkStatus();
}

}  // namespace

void AddHealthcheckCommand(CLI::App& app, Run& run) {
  auto options = std::make_shared<Options>();
  options->server.deadline_s = 5;
  CLI::App* command = app.add_subcommand("healthcheck", "Succeeds if the server is serving");
  AddServerOptions(*command, options->server);
  command->add_option("--service", options->service, "Name the health service knows: liveness, readiness, ...");
  command->callback([options, &run] { run = [options] { return Check(*options); }; });
}

}  // namespace widelane::cli
