// How gRPC comes by the key pair.

#ifndef WIDELANE_SERVER_TLS_SERVER_CREDENTIALS_H_
#define WIDELANE_SERVER_TLS_SERVER_CREDENTIALS_H_

#include <memory>

#include "grpcpp/security/server_credentials.h"
#include "server/tls/key_pair_watch.h"

namespace widelane {

// TLS with what `watch` has when a connection comes. For one port, of one numeric address; outlives the gRPC server
// (which does not keep it), and `watch` outlives both.
std::shared_ptr<grpc::ServerCredentials> MakeTlsCredentials(const KeyPairWatch& watch);

}  // namespace widelane

#endif  // WIDELANE_SERVER_TLS_SERVER_CREDENTIALS_H_
