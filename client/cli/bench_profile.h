// Models and rows to measure on, each with a name.

#ifndef WIDELANE_CLIENT_CLI_BENCH_PROFILE_H_
#define WIDELANE_CLIENT_CLI_BENCH_PROFILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "widelane/engine/model_types.h"
#include "widelane/engine/route.h"

namespace widelane::cli {

struct BenchProfile {
  std::string name;
  uint64_t features = 0;
  uint32_t outputs = 1;
  uint32_t entries_per_row = 0;
  uint32_t best = 0;  // outputs asked for of each row; 0: all scores
  WeightType weights = WeightType::kFloat32;
  Values values = Values::kOnes;
  double zipf = 1;  // exponent; 0: uniform
  // Ranking: the first `context` entries are the same for `context_rows` rows in a row.
  uint32_t context = 0;
  uint32_t context_rows = 1;
  bool long_rows = false;  // a few rows of 10^5 to 10^6 entries, see EntriesOfRow

  uint32_t EntriesOfRow(uint64_t row) const;
  uint64_t EntriesOfRows(uint64_t rows) const;  // of the first `rows`
};

// Errors: INVALID_ARGUMENT listing the names.
absl::StatusOr<BenchProfile> FindProfile(const std::string& name);
// "text-54k, ctr-1M, ..."
std::string ProfileNames();

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_PROFILE_H_
