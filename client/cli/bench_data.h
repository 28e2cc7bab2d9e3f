// Makes the model and the rows of a profile, with all usable cores. The same seed gives the same data everywhere.

#ifndef WIDELANE_CLIENT_CLI_BENCH_DATA_H_
#define WIDELANE_CLIENT_CLI_BENCH_DATA_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/bench_profile.h"
#include "widelane/engine/csr.h"
#include "widelane/engine/model.h"

namespace widelane::cli {

// Weights between 2^-5 and 2^-3 in magnitude, of either sign.
// Errors: INVALID_ARGUMENT and RESOURCE_EXHAUSTED for sizes that cannot be had.
absl::StatusOr<std::shared_ptr<const Model>> MakeModel(const BenchProfile& profile, uint64_t seed,
                                                       Link link = Link::kSigmoid);

// CSR arrays as a caller holds them.
struct MadeRows {
  std::vector<uint32_t> indptr;
  std::vector<uint32_t> indices;
  std::vector<float> values;  // empty: all are 1

  uint64_t rows() const { return indptr.size() - 1; }
  // The first `rows` of them.
  CsrView View(uint64_t rows) const;
};
// `profile.EntriesOfRows(rows)` fits 32 bits.
MadeRows MakeRows(const BenchProfile& profile, uint64_t rows, uint64_t seed);

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_DATA_H_
