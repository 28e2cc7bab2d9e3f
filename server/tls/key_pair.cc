#include "server/tls/key_pair.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
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
  // A FIFO would be waited for.
  const int descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return unreadable();
  const File file(fdopen(descriptor, "rb"));
  struct stat about {};
  if (fstat(descriptor, &about) != 0) return unreadable();
  if (!S_ISREG(about.st_mode)) return Problem(what, path, "is no regular file");
  std::string text;
  std::array<char, 4096> part;
  while (const size_t size = std::fread(part.data(), 1, part.size(), file.get())) {
    text.append(part.data(), size);
    if (text.size() > kMost) return Problem(what, path, absl::StrCat("is larger than ", kMost, " bytes"));
  }
  if (std::ferror(file.get()) != 0) return unreadable();
  // gRPC would take that for the end.
  if (text.find('\0') != std::string::npos) return Problem(what, path, "has a zero byte, which PEM has not");
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

absl::Status UseChain(const TlsConfig& config, const std::vector<Certificate>& chain, SSL_CTX* context) {
  bool used = SSL_CTX_use_certificate(context, chain.front().get()) == 1;
  for (size_t i = 1; used && i < chain.size(); ++i) used = SSL_CTX_add1_chain_cert(context, chain[i].get()) == 1;
  if (used) return absl::OkStatus();
  return Problem(kCertificate, config.certificate, absl::StrCat("cannot be used: ", Reason()));
}

// What only shows when both are used: a key of another certificate, and what OpenSSL's security level does not allow.
absl::Status CheckTogether(const TlsConfig& config, const std::vector<Certificate>& chain, EVP_PKEY* key) {
  ERR_clear_error();
  const Context context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr) return absl::InternalError(absl::StrCat("OpenSSL cannot do TLS: ", Reason()));
  if (absl::Status status = UseChain(config, chain, context.get()); !status.ok()) return status;
  if (X509_check_private_key(chain.front().get(), key) != 1) {
    return Problem(kPrivateKey, config.private_key, absl::StrCat("does not fit the certificate ", config.certificate));
  }
  if (SSL_CTX_use_PrivateKey(context.get(), key) != 1) {
    return Problem(kPrivateKey, config.private_key, absl::StrCat("cannot be used: ", Reason()));
  }
  return absl::OkStatus();
}

std::string Serial(X509* certificate) {
  const Number number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  const Text text(BN_bn2hex(number.get()));
  return text == nullptr ? "" : text.get();
}

// Absent for what is no time.
std::optional<std::chrono::sys_seconds> TimeOf(const ASN1_TIME* text) {
  std::tm time{};
  if (ASN1_TIME_to_tm(text, &time) != 1) return std::nullopt;
  return std::chrono::sys_seconds(std::chrono::seconds(timegm(&time)));
}

absl::Status Describe(const TlsConfig& config, X509* certificate, KeyPair& pair) {
  const auto not_before = TimeOf(X509_get0_notBefore(certificate));
  const auto not_after = TimeOf(X509_get0_notAfter(certificate));
  if (!not_before.has_value() || !not_after.has_value()) {
    return Problem(kCertificate, config.certificate, "does not say when it is valid");
  }
  pair.serial = Serial(certificate);
  pair.not_before = *not_before;
  pair.not_after = *not_after;
  return absl::OkStatus();
}

absl::StatusOr<KeyPair> ReadFiles(const TlsConfig& config) {
  auto certificate = ReadFile(kCertificate, config.certificate);
  if (!certificate.ok()) return certificate.status();
  auto key = ReadFile(kPrivateKey, config.private_key);
  if (!key.ok()) return key.status();
  KeyPair pair{*std::move(certificate), *std::move(key), "", "", {}, {}};
  if (config.client_ca.empty()) return pair;
  auto client_ca = ReadFile(kClientCa, config.client_ca);
  if (!client_ca.ok()) return client_ca.status();
  pair.client_ca = *std::move(client_ca);
  return pair;
}

absl::StatusOr<KeyPair> ReadAndCheck(const TlsConfig& config) {
  absl::StatusOr<KeyPair> pair = ReadFiles(config);
  if (!pair.ok()) return pair;
  const auto chain = ReadCertificates(kCertificate, config.certificate, pair->certificate);
  if (!chain.ok()) return chain.status();
  const auto key = ReadKey(config.private_key, pair->private_key);
  if (!key.ok()) return key.status();
  if (absl::Status status = CheckTogether(config, *chain, key->get()); !status.ok()) return status;
  if (!config.client_ca.empty()) {
    const auto authorities = ReadCertificates(kClientCa, config.client_ca, pair->client_ca);
    if (!authorities.ok()) return authorities.status();
  }
  if (absl::Status status = Describe(config, chain->front().get(), *pair); !status.ok()) return status;
  return pair;
}

}  // namespace

absl::StatusOr<KeyPair> ReadKeyPair(const TlsConfig& config) {
  absl::StatusOr<KeyPair> pair = ReadAndCheck(config);
  // How the end of a file is told stays in OpenSSL's list of errors, which is the thread's.
  ERR_clear_error();
  return pair;
}

}  // namespace widelane
