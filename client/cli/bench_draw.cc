#include "client/cli/bench_draw.h"

#include <algorithm>
#include <cmath>

namespace widelane::cli {
namespace {

// A prime, so each feature stays one; the product is below 2^64.
constexpr uint64_t kScatter = 2'654'435'761;

}  // namespace

FeatureDraw::FeatureDraw(uint64_t features, double exponent) : features_(features), power_(1 - exponent) {
  const double end = static_cast<double>(features) + 1;
  span_ = power_ == 0 ? std::log(end) : std::pow(end, power_) - 1;
}

uint32_t FeatureDraw::At(double unit) const {
  double rank = 0;  // in [1, features + 1)
  if (power_ == 1) {
    rank = 1 + unit * static_cast<double>(features_);
  } else if (power_ == 0) {
    rank = std::exp(unit * span_);
  } else {
    rank = std::pow(1 + unit * span_, 1 / power_);
  }
  // Rounding may reach the end.
  const uint64_t feature = std::min(static_cast<uint64_t>(rank), features_) - 1;
  return static_cast<uint32_t>(feature * kScatter % features_);
}

}  // namespace widelane::cli
