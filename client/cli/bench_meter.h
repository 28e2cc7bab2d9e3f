// What calls of a load came to. One meter for each thread; merged in the end.

#ifndef WIDELANE_CLIENT_CLI_BENCH_METER_H_
#define WIDELANE_CLIENT_CLI_BENCH_METER_H_

#include <grpcpp/support/status.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "client/cli/bench_histogram.h"

namespace widelane::cli {

using LoadTime = std::chrono::steady_clock::time_point;

// When it is measured: after the warm-up. `open`: whether calls have a planned time.
struct LoadWindow {
  LoadTime begin;
  LoadTime end;
  bool open = false;

  bool Has(LoadTime time) const { return time >= begin && time < end; }
};

constexpr size_t kStatusCodes = 17;
// "RESOURCE_EXHAUSTED" and so on.
const char* StatusCodeName(size_t code);

// Of calls that ended within the window.
struct LoadCounts {
  uint64_t answered = 0;
  uint64_t wrong_rows = 0;  // replies to another number of rows than was sent
  uint64_t different = 0;   // replies that differ from the first to the same request
  uint64_t bytes_out = 0;   // of messages, without what the protocol adds
  uint64_t bytes_in = 0;
  std::array<uint64_t, kStatusCodes> failed{};  // by status code
};

class LoadMeter {
 public:
  explicit LoadMeter(LoadWindow window) : window_(window) {}

  // `start` is when the call was planned or, in a closed loop, sent.
  void Answered(LoadTime start, LoadTime now, size_t bytes_out, size_t bytes_in);
  void Failed(LoadTime now, int code, absl::string_view message);
  void WrongRows(LoadTime now, uint64_t got, uint64_t wanted);
  void Different(LoadTime now);
  void Merge(const LoadMeter& other);

  // Calls of all times; any thread.
  uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  const LoadCounts& counts() const { return counts_; }
  // In a closed loop of the calls that ended in the window, in an open one of those planned there.
  const LatencyHistogram& latencies() const { return latencies_; }
  // What the first failure said.
  const std::string& first_error() const { return first_error_; }

 private:
  void NoteCall() { calls_.store(calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  void NoteError(absl::string_view message);

  const LoadWindow window_;
  LoadCounts counts_;
  LatencyHistogram latencies_;
  std::string first_error_;
  std::atomic<uint64_t> calls_{0};
};

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_METER_H_
