// The options that say which model and rows are measured on, the same for every `widelane bench`.

#ifndef WIDELANE_CLIENT_CLI_BENCH_SHAPE_H_
#define WIDELANE_CLIENT_CLI_BENCH_SHAPE_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/bench_profile.h"

namespace widelane::cli {

// The command line, as text.
struct BenchShape {
  std::string profile = "text-54k";
  std::optional<uint64_t> features;
  std::optional<uint32_t> entries_per_row;
  std::optional<uint32_t> outputs;
  std::optional<uint32_t> best;
  std::string weights;
  std::string values;
  std::string zipf;
  uint64_t seed = 1;
};

void AddShapeOptions(CLI::App& command, BenchShape& shape);
// Errors: INVALID_ARGUMENT for a profile or an exponent that cannot be.
absl::StatusOr<BenchProfile> ProfileOf(const BenchShape& shape);

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_SHAPE_H_
