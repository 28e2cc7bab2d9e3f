#include "client/cli/command.h"

namespace widelane::cli {

void AddServerOptions(CLI::App& command, ServerOptions& options) {
  command.add_option("-a,--address", options.address, "Server, HOST:PORT")->capture_default_str();
  command.add_option("--deadline", options.deadline_s, "Seconds a call may take")
      ->check(CLI::Range(0.001, 86400.0))
      ->capture_default_str();
  AddTlsOptions(command, options.tls);
}

absl::StatusOr<std::unique_ptr<client::Client>> Connect(const ServerOptions& options) {
  client::ClientOptions client;
  client.deadline =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(options.deadline_s));
  auto tls = ReadTlsOptions(options.tls);
  if (!tls.ok()) return tls.status();
  client.tls = *std::move(tls);
  // A person who asks a server that is not ready wants its own answer.
  client.check_health = false;
  return client::Client::Connect(options.address, client);
}

}  // namespace widelane::cli
