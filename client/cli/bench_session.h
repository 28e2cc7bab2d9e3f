// One run of `widelane bench engine`: model, rows and backends, made once, and measurements of them beside each other.

#ifndef WIDELANE_CLIENT_CLI_BENCH_SESSION_H_
#define WIDELANE_CLIENT_CLI_BENCH_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/bench_backend.h"
#include "client/cli/bench_call.h"
#include "client/cli/bench_data.h"
#include "client/cli/bench_profile.h"
#include "client/cli/bench_statistics.h"
#include "widelane/engine/bus.h"

namespace widelane::cli {

struct BenchOptions {
  BenchProfile profile;
  std::vector<uint64_t> rows;
  std::vector<BackendKind> backends;
  std::optional<size_t> calls;  // absent: for about 0.3 s, at least 20
  std::vector<int> gpus;
  std::optional<size_t> threads;
  std::optional<size_t> lane_bytes;
  Route route = Route::kAuto;
  bool plain = false;  // each call packs the caller's arrays
  uint64_t seed = 1;
};

struct BenchMeasurement {
  uint64_t rows = 0;
  uint64_t entries = 0;
  CallSummary summary;
  CallBytes bytes;
  std::optional<BusTimes> bus;  // the bus's own time for bytes.in and bytes.out
  uint64_t checksum = 0;        // of the results of an input that all backends have scored
};

struct SessionBackend {
  BackendKind kind = BackendKind::kCpu;
  std::string left_out;  // why; empty when it is there
  std::unique_ptr<BenchBackend> backend;
  std::unique_ptr<BenchCaller> caller;
};

class BenchSession {
 public:
  // How far a measurement is.
  using Tell = std::function<void(uint64_t done, uint64_t total, uint64_t rows)>;

  // Errors: INVALID_ARGUMENT for more rows than fit; FAILED_PRECONDITION when no backend is there, with the reasons.
  static absl::StatusOr<std::unique_ptr<BenchSession>> Create(const BenchOptions& options);

  const BenchOptions& options() const { return options_; }
  const Model& model() const { return *model_; }
  size_t inputs() const { return inputs_.size(); }
  const std::vector<SessionBackend>& backends() const { return backends_; }

  // For each backend, in their order, one measurement for each of options().rows; none for those left out. Backends
  // take turns, so that whatever changes on the machine meanwhile changes all of them. Errors: those of a device;
  // INTERNAL when two backends that keep the numeric contract give different bits.
  absl::StatusOr<std::vector<std::vector<BenchMeasurement>>> Measure(const Tell& tell);

  // `calls` calls of each backend, one after the other, after a warm-up.
  absl::StatusOr<std::vector<CallSummary>> Time(uint64_t rows, size_t calls);

 private:
  explicit BenchSession(const BenchOptions& options) : options_(options) {}

  absl::Status MakeInputs();
  absl::Status MakeBackends();
  absl::StatusOr<std::vector<BenchMeasurement>> MeasureRows(uint64_t rows, const std::function<void()>& turn_done);
  std::optional<BusTimes> Bus(const CallBytes& bytes) const;

  const BenchOptions options_;
  SlabOptions slab_;
  std::shared_ptr<const Model> model_;
  std::vector<MadeRows> inputs_;
  std::vector<SessionBackend> backends_;
};

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_SESSION_H_
