// Random cases for every kind of kernel, compared in bits with the numeric contract.

#ifndef WIDELANE_TESTS_BENCH_KERNEL_CHECK_H_
#define WIDELANE_TESTS_BENCH_KERNEL_CHECK_H_

#include <cstdint>
#include <string>

#include "kernel_data.h"

namespace widelane::cuda {

// Where a call's results are.
struct Results {
  DeviceArray<double> raw;
  DeviceArray<float> scores;
  DeviceArray<uint32_t> best_outputs;
  DeviceArray<float> best_scores;

  // Room for `rows` rows: of best outputs if best > 0, else of scores and raw sums.
  Results(uint32_t rows, uint32_t outputs, uint32_t best);
  void Describe(uint32_t best, ScoreArguments& arguments) const;
};

// The first difference between the results of rows first, first + every, ... below `end` and the contract's; empty if
// there is none.
std::string FirstDifference(const MadeModel& model, const HostBatch& batch, const Results& results, uint32_t best,
                            uint32_t first, uint32_t end, uint32_t every);

// Runs `cases` cases; prints each that differs and the seed. Returns how many do.
uint32_t CheckCases(uint64_t seed, uint32_t cases);

}  // namespace widelane::cuda

#endif  // WIDELANE_TESTS_BENCH_KERNEL_CHECK_H_
