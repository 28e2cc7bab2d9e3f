// Calls of one backend, one at a time, over a few inputs in turn.

#ifndef WIDELANE_CLIENT_CLI_BENCH_CALL_H_
#define WIDELANE_CLIENT_CLI_BENCH_CALL_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/bench_backend.h"
#include "client/cli/bench_data.h"
#include "widelane/engine/engine.h"

namespace widelane::cli {

struct BenchCall {
  std::chrono::nanoseconds time{0};  // from the call to the results
  StageTimes stages;
  std::optional<Route> route;  // absent where several batches may have gone several ways
};

// What a call reads and gives.
struct CallBytes {
  uint64_t in = 0;   // of the arrays a device needs
  uint64_t out = 0;  // of the results
};

// Used by one thread. The backend and the inputs outlive it.
class BenchCaller {
 public:
  virtual ~BenchCaller() = default;
  // Makes the first `rows` rows of each input ready. Errors: as the engine's.
  virtual absl::Status Prepare(uint64_t rows) = 0;
  // Scores the input next in turn.
  virtual absl::StatusOr<BenchCall> Call() = 0;
  // Of the input before; the same bits give the same number.
  virtual uint64_t ResultsChecksum() const = 0;
  virtual CallBytes bytes() const = 0;
};

struct CallKind {
  BatchKind batch;
  Route route = Route::kAuto;
};
// Packed slabs, submitted again and again: the engine has one for each input.
std::unique_ptr<BenchCaller> CallWithSlabs(const BenchBackend& backend, const std::vector<MadeRows>& inputs,
                                           const CallKind& kind);
// The inputs' own arrays, which each call packs.
std::unique_ptr<BenchCaller> CallWithArrays(const BenchBackend& backend, const std::vector<MadeRows>& inputs,
                                            const CallKind& kind);

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_CALL_H_
