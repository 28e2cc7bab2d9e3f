#include "client/cli/narrow_float.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace widelane::cli {
namespace {

// `value` with at most `bits` significant bits, and a multiple of 2^least. Exact arithmetic throughout but for the
// rounding itself.
double RoundTo(double value, int bits, int least) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent;
  std::frexp(value, &exponent);
  const int step = std::max(exponent - bits, least);
  return std::ldexp(std::nearbyint(std::ldexp(value, -step)), step);
}

// Bits of a number that binary16 holds exactly.
uint16_t Float16Bits(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(value);
  if (magnitude < 0x1p-14) return sign | static_cast<uint16_t>(magnitude * 0x1p24);
  int exponent;
  const double fraction = std::frexp(magnitude, &exponent);
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) + static_cast<int>((fraction * 2 - 1) * 1024));
}

}  // namespace

bool StoreWeight(double value, WeightType type, std::byte* out) {
  if (type == WeightType::kFloat32) {
    const auto narrow = static_cast<float>(value);
    std::memcpy(out, &narrow, sizeof(narrow));
    return std::isfinite(narrow);
  }
  uint16_t bits;
  if (type == WeightType::kFloat16) {
    const double rounded = RoundTo(value, 11, -24);
    if (!(std::abs(rounded) <= 65504)) return false;
    bits = Float16Bits(rounded);
  } else {
    const auto rounded = static_cast<float>(RoundTo(value, 8, -133));
    if (!std::isfinite(rounded)) return false;
    bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(rounded) >> 16);
  }
  std::memcpy(out, &bits, sizeof(bits));
  return true;
}

}  // namespace widelane::cli
