// How far a long command is, on one line of a terminal.

#ifndef WIDELANE_CLIENT_CLI_PROGRESS_H_
#define WIDELANE_CLIENT_CLI_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <string>

namespace widelane::cli {

// "[=====>    ]  52%  1.2 M rows  340 k rows/s", or without the bar when the total is unknown (0).
std::string ProgressLine(uint64_t done, uint64_t total, uint64_t rows, double seconds);

// Draws on stderr while it lives, and only if that is a terminal.
class Progress {
 public:
  // `total` is what `done` of Update will be in the end, 0 if not known.
  Progress(uint64_t total, bool wanted);
  ~Progress();

  void Update(uint64_t done, uint64_t rows);

 private:
  const uint64_t total_;
  const bool shown_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_;
};

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_PROGRESS_H_
