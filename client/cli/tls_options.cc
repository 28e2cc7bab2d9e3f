#include "client/cli/tls_options.h"

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace widelane::cli {
namespace {

absl::Status ReadFile(const std::string& path, std::string& text) {
  if (path.empty()) return absl::OkStatus();
  std::ostringstream out;
  // Fails for what is empty, too.
  if (!(out << std::ifstream(path, std::ios::binary).rdbuf())) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ", or it is empty"));
  }
  text = out.str();
  return absl::OkStatus();
}

bool Wanted(const TlsArguments& arguments) {
  return arguments.tls || !arguments.ca.empty() || !arguments.certificate.empty() || !arguments.server_name.empty();
}

}  // namespace

void AddTlsOptions(CLI::App& command, TlsArguments& arguments) {
  command.add_flag("--tls", arguments.tls, "Use TLS, which each option --tls-... asks for as well");
  command.add_option("--tls-ca", arguments.ca, "PEM file of who vouches for the server; else whom the system trusts");
  CLI::Option* certificate =
      command.add_option("--tls-certificate", arguments.certificate, "PEM file, for a server that asks for one");
  CLI::Option* key =
      command.add_option("--tls-private-key", arguments.private_key, "PEM file of the certificate's private key");
  certificate->needs(key);
  key->needs(certificate);
  command.add_option("--tls-server-name", arguments.server_name,
                     "Name the server's certificate is to have; else the address's host");
}

absl::StatusOr<std::optional<client::TlsOptions>> ReadTlsOptions(const TlsArguments& arguments) {
  if (!Wanted(arguments)) return std::nullopt;
  client::TlsOptions tls;
  tls.server_name = arguments.server_name;
  absl::Status status = ReadFile(arguments.ca, tls.root_certificates);
  status.Update(ReadFile(arguments.certificate, tls.certificate));
  status.Update(ReadFile(arguments.private_key, tls.private_key));
  if (!status.ok()) return status;
  return tls;
}

}  // namespace widelane::cli
