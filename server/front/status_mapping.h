// Turns the product's own statuses into gRPC's, with google.rpc details: the only place where that happens.

#ifndef WIDELANE_SERVER_FRONT_STATUS_MAPPING_H_
#define WIDELANE_SERVER_FRONT_STATUS_MAPPING_H_

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"

namespace widelane {

// The code and message of `status`. Details: BadRequest with the field of a FieldError; RetryInfo for UNAVAILABLE and
// for a server that is full. Messages are cut so that all fits into the 8 KiB a client takes as metadata.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The same as a message; `status` is an error.
google::rpc::Status ToRpcStatus(const absl::Status& status);

// "OK", "INVALID_ARGUMENT" and so on.
const char* StatusCodeName(grpc::StatusCode code);

// An engine error about a CsrView as one about the field `rows` of a request: "indices[17]: ..." becomes
// "rows.indices[17]: ...". Errors about contexts name them already.
absl::Status InRows(const absl::Status& status);

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_STATUS_MAPPING_H_
