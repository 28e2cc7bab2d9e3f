// How a channel is secured; for all who make channels, the command's load included.

#ifndef WIDELANE_CLIENT_SRC_CREDENTIALS_H_
#define WIDELANE_CLIENT_SRC_CREDENTIALS_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <optional>
#include <string>

#include "widelane/client/client.h"

namespace widelane::client {

// A channel with `arguments`, and with TLS if `tls` is there.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, const std::optional<TlsOptions>& tls,
                                           grpc::ChannelArguments arguments);

}  // namespace widelane::client

#endif  // WIDELANE_CLIENT_SRC_CREDENTIALS_H_
