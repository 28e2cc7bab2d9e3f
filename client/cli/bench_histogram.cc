#include "client/cli/bench_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace widelane::cli {

// Below 2^(kBits + 1) each bucket is one number. Above, a number keeps its kBits + 1 leading bits, and the first of
// them is always set.
size_t LatencyHistogram::BucketOf(uint64_t nanoseconds) {
  const int shift = std::max(0, static_cast<int>(std::bit_width(nanoseconds)) - kBits - 1);
  return (static_cast<size_t>(shift) << kBits) + (nanoseconds >> shift);
}

uint64_t LatencyHistogram::LargestOf(size_t bucket) {
  const size_t group = bucket >> kBits;
  const size_t shift = group == 0 ? 0 : group - 1;
  return ((bucket - (shift << kBits) + 1) << shift) - 1;
}

void LatencyHistogram::Add(std::chrono::nanoseconds latency) {
  constexpr int64_t kMost = (int64_t{1} << kMostBits) - 1;
  const auto clamped = static_cast<uint64_t>(std::clamp<int64_t>(latency.count(), 0, kMost));
  ++counts_[BucketOf(clamped)];
  ++count_;
  sum_ += clamped;
  max_ = std::max(max_, clamped);
}

void LatencyHistogram::Merge(const LatencyHistogram& other) {
  for (size_t b = 0; b < kBuckets; ++b) counts_[b] += other.counts_[b];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

std::chrono::nanoseconds LatencyHistogram::mean() const {
  return std::chrono::nanoseconds(count_ == 0 ? 0 : sum_ / count_);
}

std::chrono::nanoseconds LatencyHistogram::Percentile(double share) const {
  const auto rank = std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(share * static_cast<double>(count_))));
  uint64_t seen = 0;
  for (size_t b = 0; b < kBuckets; ++b) {
    seen += counts_[b];
    if (seen >= rank) return std::chrono::nanoseconds(std::min(LargestOf(b), max_));
  }
  return max();
}

}  // namespace widelane::cli
