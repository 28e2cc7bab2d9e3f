// What many calls come to.

#ifndef WIDELANE_CLIENT_CLI_BENCH_STATISTICS_H_
#define WIDELANE_CLIENT_CLI_BENCH_STATISTICS_H_

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "client/cli/bench_call.h"

namespace widelane::cli {

// Times in microseconds.
struct CallSummary {
  size_t calls = 0;
  double total = 0;
  double median = 0;
  double min = 0;
  double p10 = 0;
  double p90 = 0;
  StageTimes stages;                     // each stage's median
  std::array<size_t, kRoutes> routes{};  // calls that went each way, by Route

  // The way most of them went; empty where none is told.
  std::string route() const;
};

// Of at least one call.
CallSummary Summarise(const std::vector<BenchCall>& calls);

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_STATISTICS_H_
