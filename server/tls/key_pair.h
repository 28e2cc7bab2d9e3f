// What a server shows in TLS: its certificate, the private key of that, and who vouches for its clients.

#ifndef WIDELANE_SERVER_TLS_KEY_PAIR_H_
#define WIDELANE_SERVER_TLS_KEY_PAIR_H_

#include <chrono>
#include <string>

#include "absl/status/statusor.h"
#include "server/config/config.h"

namespace widelane {

struct KeyPair {
  std::string certificate;  // PEM: the server's own, then those up to its root
  std::string private_key;  // PEM
  std::string client_ca;    // PEM; empty: no client needs a certificate
  // Of the server's own certificate. In seconds, as years up to 9999 are too many nanoseconds.
  std::string serial;  // hexadecimal digits
  std::chrono::sys_seconds not_before;
  std::chrono::sys_seconds not_after;

  bool SameFiles(const KeyPair& other) const {
    return certificate == other.certificate && private_key == other.private_key && client_ca == other.client_ca;
  }
};

// Reads the files that `config` names, and has OpenSSL load them as gRPC will. A certificate that is not valid
// yet or any more is no error: its clients tell, and a server that did not start would help none of them. Never asks
// for a passphrase. Errors: INVALID_ARGUMENT naming the file and what is wrong with it.
absl::StatusOr<KeyPair> ReadKeyPair(const TlsConfig& config);

}  // namespace widelane

#endif  // WIDELANE_SERVER_TLS_KEY_PAIR_H_
