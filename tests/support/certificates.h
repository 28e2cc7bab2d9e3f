// Certificates made for a test, and what a server shows.

#ifndef WIDELANE_TESTS_SUPPORT_CERTIFICATES_H_
#define WIDELANE_TESTS_SUPPORT_CERTIFICATES_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace widelane::test {

// PEM.
struct MadePair {
  std::string certificate;
  std::string private_key;
};

// From now on, or before it.
std::chrono::sys_seconds SecondsFromNow(std::chrono::seconds time);

// When a certificate is valid.
struct Validity {
  std::chrono::sys_seconds from = SecondsFromNow(-std::chrono::hours(24));
  std::chrono::sys_seconds until = SecondsFromNow(std::chrono::hours(24));
};

// Who vouches for certificates. Each has a key of its own (P-256), and is for localhost and 127.0.0.1.
class Authority {
 public:
  Authority();

  // Its own certificate.
  const std::string& certificate() const { return certificate_; }
  MadePair Issue(int64_t serial, const Validity& validity = {}) const;

 private:
  const std::shared_ptr<EVP_PKEY> key_;
  std::shared_ptr<X509> own_;
  std::string certificate_;
};

// The key, as PEM that wants a passphrase.
std::string Encrypted(const std::string& private_key);

// The serial number of the certificate that a server at "host:port" shows a new connection; absent without one.
std::optional<int64_t> ServedSerial(const std::string& address);

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_CERTIFICATES_H_
