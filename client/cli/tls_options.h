// TLS on the command line, the same for every command that dials a server.

#ifndef WIDELANE_CLIENT_CLI_TLS_OPTIONS_H_
#define WIDELANE_CLIENT_CLI_TLS_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "widelane/client/client.h"

namespace widelane::cli {

struct TlsArguments {
  bool tls = false;  // each of the others says so as well
  // Names of files.
  std::string ca;
  std::string certificate;
  std::string private_key;
  std::string server_name;
};
void AddTlsOptions(CLI::App& command, TlsArguments& arguments);

// With what is in the files; absent where nothing asks for TLS. Errors: NOT_FOUND naming the file.
absl::StatusOr<std::optional<client::TlsOptions>> ReadTlsOptions(const TlsArguments& arguments);

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_TLS_OPTIONS_H_
