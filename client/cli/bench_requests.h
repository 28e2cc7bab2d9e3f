// Requests for a load on a server, encoded once before it begins.

#ifndef WIDELANE_CLIENT_CLI_BENCH_REQUESTS_H_
#define WIDELANE_CLIENT_CLI_BENCH_REQUESTS_H_

#include <grpcpp/support/slice.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/bench_profile.h"

namespace widelane::cli {

struct RequestOptions {
  std::string model;
  std::string version;  // empty: the newest
  BenchProfile profile;
  uint64_t rows = 1;     // of a request
  bool context = false;  // send what rows share once, instead of written out in each of them
  std::string priority;  // "high", "normal" or "low"; empty: not set
  uint64_t seed = 1;
};

// Errors: INVALID_ARGUMENT for `context` where rows share nothing, and for more entries than requests can have.
absl::Status CheckRequests(const RequestOptions& options);

// Encoded ScoreRequests, all different, in the narrowest encoding the model allows: row lengths, 16-bit indices up to
// 65,536 features, no values that are all 1. Some hundred of them, fewer of large ones, so that together they take no
// more than about 128 MB.
// `options` have passed CheckRequests.
std::vector<grpc::Slice> EncodeRequests(const RequestOptions& options);

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_REQUESTS_H_
