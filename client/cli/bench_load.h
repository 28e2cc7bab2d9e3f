// Load on a server: many calls at once over a few connections, by threads that do as little as they can.
//
// In a closed loop each answer lets another request go. In an open loop requests go when a Poisson process says so,
// and latency counts from that time, so that a server that stalls is charged for the calls it kept from being sent.

#ifndef WIDELANE_CLIENT_CLI_BENCH_LOAD_H_
#define WIDELANE_CLIENT_CLI_BENCH_LOAD_H_

#include <grpcpp/support/slice.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/bench_meter.h"
#include "widelane/client/client.h"

namespace widelane::cli {

struct LoadOptions {
  std::string address = "localhost:8600";  // or unix:PATH
  size_t concurrency = 64;                 // calls in flight, in all; in an open loop the most
  double rate = 0;                         // calls a second of an open loop; 0: a closed loop
  bool stream = false;                     // ScoreStream; `concurrency` are its requests then
  size_t streams = 0;                      // 0: as many as connections
  size_t connections = 0;                  // 0: as many as threads
  size_t threads = 0;                      // 0: one for every four usable cores, 8 at most
  std::chrono::milliseconds deadline{0};   // of a call; 0: none
  std::chrono::nanoseconds duration = std::chrono::seconds(5);
  std::chrono::nanoseconds warm_up = std::chrono::seconds(1);
  uint64_t seed = 1;
  std::optional<client::TlsOptions> tls;  // absent: plain text
};

// With the counts that were left to be chosen. Errors: INVALID_ARGUMENT for counts that do not go together.
absl::StatusOr<LoadOptions> FillIn(LoadOptions options);

struct LoadResult {
  std::unique_ptr<LoadMeter> total;
  double cpu_seconds = 0;  // that this process used, warm-up included
};

// `requests` are encoded ScoreRequests of `rows` rows each, sent in turn. `tell` is called about once a second with the
// share of the time that is over and the calls so far. A stream that the server ends stays ended.
// Errors: UNAVAILABLE when there is no connection, or, in a closed loop, no stream is left before the time is over.
// Calls that fail are counted, not an error.
absl::StatusOr<LoadResult> RunLoad(const LoadOptions& filled_in, const std::vector<grpc::Slice>& requests,
                                   uint64_t rows, const std::function<void(double, uint64_t)>& tell);

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_LOAD_H_
