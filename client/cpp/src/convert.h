// Messages to the plain structs of client.h, and back.

#ifndef WIDELANE_CLIENT_SRC_CONVERT_H_
#define WIDELANE_CLIENT_SRC_CONVERT_H_

#include "absl/status/status.h"
#include "widelane/client/client.h"
#include "widelane/v1/scoring.pb.h"

namespace widelane::client {

// Errors: those of EncodeRows and EncodeContexts.
absl::Status ToMessage(const ScoreRequest& request, v1::ScoreRequest& out);
ScoreReply FromMessage(const v1::ScoreReply& reply);
ModelInfo FromMessage(const v1::ModelInfo& info);

}  // namespace widelane::client

#endif  // WIDELANE_CLIENT_SRC_CONVERT_H_
