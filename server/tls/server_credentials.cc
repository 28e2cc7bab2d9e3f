#include "server/tls/server_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <string>

namespace widelane {

namespace {

struct Release {
  void operator()(grpc_server_credentials* credentials) const { grpc_server_credentials_release(credentials); }
};

// gRPC's C++ classes take a pair once, or files that it watches without looking whether they fit. Its C functions ask
// for the pair when a connection comes.
class TlsCredentials final : public grpc::ServerCredentials {
 public:
  explicit TlsCredentials(const KeyPairWatch& watch) : watch_(watch) {
    const auto request = watch.pair()->client_ca.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                         : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
    credentials_.reset(grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(request, &TlsCredentials::Fetch, this)));
  }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_.get());
  }

  // Calls are made one at a time. gRPC owns what it is given.
  static grpc_ssl_certificate_config_reload_status Fetch(void* self, grpc_ssl_server_certificate_config** config) {
    auto& credentials = *static_cast<TlsCredentials*>(self);
    std::shared_ptr<const KeyPair> pair = credentials.watch_.pair();
    if (pair == credentials.given_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair key_cert{pair->private_key.c_str(), pair->certificate.c_str()};
    // gRPC insists on some roots. Where no client is asked for a certificate nothing comes of them.
    const std::string& roots = pair->client_ca.empty() ? pair->certificate : pair->client_ca;
    *config = grpc_ssl_server_certificate_config_create(roots.c_str(), &key_cert, 1);
    credentials.given_ = std::move(pair);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const KeyPairWatch& watch_;
  std::shared_ptr<const KeyPair> given_;
  std::unique_ptr<grpc_server_credentials, Release> credentials_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MakeTlsCredentials(const KeyPairWatch& watch) {
  return std::make_shared<TlsCredentials>(watch);
}

}  // namespace widelane
