// Channels with their settings.

#ifndef WIDELANE_CLIENT_SRC_CHANNEL_H_
#define WIDELANE_CLIENT_SRC_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "widelane/client/client.h"

namespace widelane::client {

// With `check_health` the channel uses only servers that say SERVING, and calls on it fail while there is none.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, const ClientOptions& options, bool check_health);

}  // namespace widelane::client

#endif  // WIDELANE_CLIENT_SRC_CHANNEL_H_
