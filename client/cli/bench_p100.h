// The table of the report that started this project: batches of 10 to 200,000 rows, 10 to 200 calls each, on the CPU,
// one GPU, all GPUs and wherever the engine sends them.

#ifndef WIDELANE_CLIENT_CLI_BENCH_P100_H_
#define WIDELANE_CLIENT_CLI_BENCH_P100_H_

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/bench_session.h"

namespace widelane::cli {

inline constexpr std::array<uint64_t, 6> kP100Rows = {10, 100, 1'000, 10'000, 100'000, 200'000};
inline constexpr std::array<size_t, 5> kP100Calls = {10, 20, 40, 100, 200};

struct P100Line {
  uint64_t rows = 0;
  size_t calls = 0;
  std::vector<CallSummary> backends;  // in the session's order; no calls for one that is left out
};

// For options().rows, which are kP100Rows unless the command line has others.
absl::StatusOr<std::vector<P100Line>> MeasureP100(BenchSession& session, const BenchSession::Tell& tell);
// Total times of all calls, then the time of a call and its stages.
std::string P100Table(const BenchSession& session, const std::vector<P100Line>& lines);
nlohmann::ordered_json P100Json(const BenchSession& session, const std::vector<P100Line>& lines);

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_P100_H_
