#include "tests/support/certificates.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "tests/support/check.h"

namespace widelane::test {

namespace {

using Key = std::shared_ptr<EVP_PKEY>;
using Certificate = std::shared_ptr<X509>;
using Bio = std::shared_ptr<BIO>;

Key MakeKey() { return Key(EVP_EC_gen("P-256"), EVP_PKEY_free); }

Bio Memory() { return Bio(BIO_new(BIO_s_mem()), BIO_free_all); }

std::string TextOf(const Bio& bio) {
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

std::string Pem(const Certificate& certificate) {
  const Bio bio = Memory();
  Require(PEM_write_bio_X509(bio.get(), certificate.get()) == 1, "a certificate is written");
  return TextOf(bio);
}

std::string Pem(const Key& key, const EVP_CIPHER* cipher = nullptr) {
  const Bio bio = Memory();
  const std::string passphrase = "open sesame";
  const bool written =
      PEM_write_bio_PrivateKey(bio.get(), key.get(), cipher, reinterpret_cast<const unsigned char*>(passphrase.data()),
                               static_cast<int>(passphrase.size()), nullptr, nullptr) == 1;
  Require(written, "a private key is written");
  return TextOf(bio);
}

void SetName(X509_NAME* name, const char* text) {
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(text), -1, -1, 0);
}

void AddExtension(X509* certificate, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  const std::shared_ptr<X509_EXTENSION> extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value),
                                                  X509_EXTENSION_free);
  Require(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1, "an extension is added");
}

Certificate Unsigned(int64_t serial, const char* name, const Key& key, const Validity& validity) {
  Certificate certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set_int64(X509_get_serialNumber(certificate.get()), serial);
  ASN1_TIME_set(X509_getm_notBefore(certificate.get()), validity.from.time_since_epoch().count());
  ASN1_TIME_set(X509_getm_notAfter(certificate.get()), validity.until.time_since_epoch().count());
  SetName(X509_get_subject_name(certificate.get()), name);
  X509_set_pubkey(certificate.get(), key.get());
  return certificate;
}

void Sign(X509* certificate, X509* issuer, const Key& key) {
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
  Require(X509_sign(certificate, key.get(), EVP_sha256()) > 0, "a certificate is signed");
}

}  // namespace

std::chrono::sys_seconds SecondsFromNow(std::chrono::seconds time) {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()) + time;
}

Authority::Authority() : key_(MakeKey()), own_(Unsigned(1, "authority", key_, {})) {
  AddExtension(own_.get(), NID_basic_constraints, "critical,CA:TRUE");
  Sign(own_.get(), own_.get(), key_);
  certificate_ = Pem(own_);
}

MadePair Authority::Issue(int64_t serial, const Validity& validity) const {
  const Key key = MakeKey();
  const Certificate certificate = Unsigned(serial, "localhost", key, validity);
  AddExtension(certificate.get(), NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  Sign(certificate.get(), own_.get(), key_);
  return {Pem(certificate), Pem(key)};
}

std::string Encrypted(const std::string& private_key) {
  const Bio bio(BIO_new_mem_buf(private_key.data(), static_cast<int>(private_key.size())), BIO_free_all);
  return Pem(Key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr), EVP_PKEY_free), EVP_aes_256_cbc());
}

std::optional<int64_t> ServedSerial(const std::string& address) {
  const std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  const unsigned char http2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), http2, sizeof(http2));
  const Bio connection(BIO_new_ssl_connect(context.get()), BIO_free_all);
  BIO_set_conn_hostname(connection.get(), address.c_str());
  // Connects and shakes hands.
  constexpr int kPatienceSeconds = 10;
  constexpr int kPauseMilliseconds = 1;
  if (BIO_do_connect_retry(connection.get(), kPatienceSeconds, kPauseMilliseconds) != 1) return std::nullopt;
  SSL* ssl = nullptr;
  BIO_get_ssl(connection.get(), &ssl);
  const Certificate certificate(SSL_get1_peer_certificate(ssl), X509_free);
  int64_t serial = 0;
  if (certificate == nullptr || ASN1_INTEGER_get_int64(&serial, X509_get0_serialNumber(certificate.get())) != 1) {
    return std::nullopt;
  }
  return serial;
}

}  // namespace widelane::test
