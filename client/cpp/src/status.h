// A call's status on this side of the wire.

#ifndef WIDELANE_CLIENT_SRC_STATUS_H_
#define WIDELANE_CLIENT_SRC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"

namespace widelane::client {

// Code and message of `status`; its google.rpc details become payloads, which ErrorField and RetryDelay read.
absl::Status FromGrpc(const grpc::Status& status);
absl::Status FromMessage(const google::rpc::Status& status);

}  // namespace widelane::client

#endif  // WIDELANE_CLIENT_SRC_STATUS_H_
