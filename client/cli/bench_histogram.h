// Latencies in fixed memory: buckets of equal width within each power of two, as HdrHistogram has them.

#ifndef WIDELANE_CLIENT_CLI_BENCH_HISTOGRAM_H_
#define WIDELANE_CLIENT_CLI_BENCH_HISTOGRAM_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace widelane::cli {

// Not for several threads: each has its own, and they are merged.
class LatencyHistogram {
 public:
  // Below 0 counts as 0, above about 73 minutes as that.
  void Add(std::chrono::nanoseconds latency);
  void Merge(const LatencyHistogram& other);

  uint64_t count() const { return count_; }
  std::chrono::nanoseconds max() const { return std::chrono::nanoseconds(max_); }
  std::chrono::nanoseconds mean() const;
  // The least latency that at least `share` (0 to 1) of them do not exceed, at most 1/128 too large; 0 without any.
  std::chrono::nanoseconds Percentile(double share) const;

 private:
  static constexpr int kBits = 7;  // buckets of a power of two: 2^kBits
  static constexpr int kMostBits = 42;
  static constexpr size_t kBuckets = static_cast<size_t>(kMostBits - kBits + 1) << kBits;

  static size_t BucketOf(uint64_t nanoseconds);
  static uint64_t LargestOf(size_t bucket);

  std::array<uint64_t, kBuckets> counts_{};
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
  uint64_t max_ = 0;
};

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_HISTOGRAM_H_
