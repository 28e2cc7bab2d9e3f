#include "src/credentials.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

namespace widelane::client {

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, const std::optional<TlsOptions>& tls,
                                           grpc::ChannelArguments arguments) {
  if (!tls.has_value()) return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  if (!tls->server_name.empty()) arguments.SetSslTargetNameOverride(tls->server_name);
  const auto credentials = grpc::SslCredentials({tls->root_certificates, tls->private_key, tls->certificate});
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

}  // namespace widelane::client
