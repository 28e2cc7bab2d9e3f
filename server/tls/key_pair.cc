#include "server/tls/key_pair.h"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace widelane {

namespace {

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
void FreeText(char* text) { OPENSSL_free(text); }

using File = std::unique_ptr<FILE, Free<std::fclose>>;
using Bio = std::unique_ptr<BIO, Free<BIO_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Context = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using Number = std::unique_ptr<BIGNUM, Free<BN_free>>;
using Text = std::unique_ptr<char, Free<FreeText>>;

// How files are named in errors.
constexpr char kCertificate[] = "the TLS certificate";
constexpr char kPrivateKey[] = "the TLS private key";
constexpr char kClientCa[] = "the client CA";

absl::Status Problem(const std::string& what, const std::string& file, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat(what, " ", file, " ", problem));
}

absl::StatusOr<std::string> ReadFile(const std::string& what, const std::string& path) {
  constexpr size_t kMost = 1 << 20;  // far more than any chain has
  const auto unreadable = [&] {
    return Problem(what, path, absl::StrCat("cannot be read: ", std::system_category().message(errno)));
  };
  const File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return unreadable();
  std::string text;
  std::array<char, 4096> part;
  while (const size_t size = std::fread(part.data(), 1, part.size(), file.get())) {
    text.append(part.data(), size);
    if (text.size() > kMost) return Problem(what, path, absl::StrCat("is larger than ", kMost, " bytes"));
  }
  if (std::ferror(file.get()) != 0) return unreadable();
  return text;
}

Bio Reader(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

// OpenSSL's words for the last thing that went wrong on this thread.
std::string Reason() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason == nullptr ? "OpenSSL does not say why" : reason;
}

// One certificate after the other, in their order.
absl::StatusOr<std::vector<Certificate>> ReadCertificates(const std::string& what, const std::string& path,
                                                          const std::string& text) {
  ERR_clear_error();
  std::vector<Certificate> certificates;
  const Bio reader = Reader(text);
  while (X509* const certificate = PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(certificate);
  }
  // This is how the end is told.
  if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
    return Problem(what, path, absl::StrCat("has a damaged certificate: ", Reason()));
  }
  if (certificates.empty()) return Problem(what, path, "has no certificate in PEM form");
  return certificates;
}

// Instead of OpenSSL's own, which asks at the terminal.
int NoPassphrase(char* /*passphrase*/, int /*size*/, int /*writing*/, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

absl::StatusOr<Key> ReadKey(const std::string& path, const std::string& text) {
  ERR_clear_error();
  bool asked = false;
  Key key(PEM_read_bio_PrivateKey(Reader(text).get(), nullptr, NoPassphrase, &asked));
  if (asked) return Problem(kPrivateKey, path, "is encrypted, and nobody can be asked for its passphrase");
  if (key == nullptr) return Problem(kPrivateKey, path, absl::StrCat("has no private key in PEM form: ", Reason()));
  return key;
}

// What only shows when both are used: a key of another certificate, and what OpenSSL's security level does not allow.
absl::Status CheckTogether(const TlsConfig& config, X509* certificate, EVP_PKEY* key) {
  ERR_clear_error();
  const Context context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr) return absl::InternalError(absl::StrCat("OpenSSL cannot do TLS: ", Reason()));
  if (SSL_CTX_use_certificate(context.get(), certificate) != 1) {
    return Problem(kCertificate, config.certificate, absl::StrCat("cannot be used: ", Reason()));
  }
  if (X509_check_private_key(certificate, key) != 1) {
    return Problem(kPrivateKey, config.private_key, absl::StrCat("does not fit the certificate ", config.certificate));
  }
  if (SSL_CTX_use_PrivateKey(context.get(), key) != 1) {
    return Problem(kPrivateKey, config.private_key, absl::StrCat("cannot be used: ", Reason()));
  }
  return absl::OkStatus();
}

absl::Status CheckClientCa(const TlsConfig& config, const std::string& text) {
  return ReadCertificates(kClientCa, config.client_ca, text).status();
}

std::string Serial(X509* certificate) {
  const Number number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  const Text text(BN_bn2hex(number.get()));
  return text == nullptr ? "" : text.get();
}

std::chrono::system_clock::time_point NotAfter(X509* certificate) {
  std::tm time{};
  ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &time);
  return std::chrono::system_clock::from_time_t(timegm(&time));
}

absl::StatusOr<KeyPair> ReadFiles(const TlsConfig& config) {
  auto certificate = ReadFile(kCertificate, config.certificate);
  if (!certificate.ok()) return certificate.status();
  auto key = ReadFile(kPrivateKey, config.private_key);
  if (!key.ok()) return key.status();
  KeyPair pair{*std::move(certificate), *std::move(key), "", "", {}};
  if (config.client_ca.empty()) return pair;
  auto client_ca = ReadFile(kClientCa, config.client_ca);
  if (!client_ca.ok()) return client_ca.status();
  pair.client_ca = *std::move(client_ca);
  return pair;
}

}  // namespace

absl::StatusOr<KeyPair> ReadKeyPair(const TlsConfig& config) {
  absl::StatusOr<KeyPair> pair = ReadFiles(config);
  if (!pair.ok()) return pair;
  const auto chain = ReadCertificates(kCertificate, config.certificate, pair->certificate);
  if (!chain.ok()) return chain.status();
  const auto key = ReadKey(config.private_key, pair->private_key);
  if (!key.ok()) return key.status();
  X509* const own = chain->front().get();
  if (absl::Status status = CheckTogether(config, own, key->get()); !status.ok()) return status;
  if (!config.client_ca.empty()) {
    if (absl::Status status = CheckClientCa(config, pair->client_ca); !status.ok()) return status;
  }
  pair->serial = Serial(own);
  pair->not_after = NotAfter(own);
  return pair;
}

}  // namespace widelane
