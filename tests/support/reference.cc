#include "tests/support/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "numeric.h"

namespace widelane::test {
namespace {

using Wide = __int128;

template <typename T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

float ValueAt(const Row& row, size_t entry) { return row.values.empty() ? 1.0F : row.values[entry]; }

// Largest |value| among the entries that count; rows without values are all ones, empty ones included.
float LargestValue(const Model& model, const Row& row) {
  if (row.values.empty()) return 1.0F;
  float largest = 0;
  for (size_t i = 0; i < row.features.size(); ++i) {
    if (row.features[i] < model.features()) largest = std::max(largest, std::fabs(row.values[i]));
  }
  return largest;
}

// E: the least exponent with max|w| * max|v| < 2^E.
int GridExponent(const Model& model, float max_value) {
  int exponent = 0;
  std::frexp(model.max_weight() * static_cast<double>(max_value), &exponent);
  return exponent;
}

std::vector<float> Normalise(Link link, const std::vector<double>& raw) {
  const double max = *std::max_element(raw.begin(), raw.end());
  Wide sum = 0;
  for (const double r : raw) {
    sum += static_cast<Wide>(std::nearbyint(std::ldexp(numeric::Share(link, r, max), 38)));
  }
  std::vector<float> scores;
  for (const double r : raw) {
    const double share = numeric::Share(link, r, max);
    scores.push_back(static_cast<float>(share / std::ldexp(static_cast<double>(sum), -38)));
  }
  return scores;
}

std::vector<float> ApplyLink(Link link, const std::vector<double>& raw) {
  std::vector<float> scores;
  switch (link) {
    case Link::kIdentity:
      for (const double r : raw) scores.push_back(static_cast<float>(r));
      break;
    case Link::kSigmoid:
      for (const double r : raw) scores.push_back(static_cast<float>(numeric::Sigmoid(r)));
      break;
    case Link::kExp:
      for (const double r : raw) scores.push_back(static_cast<float>(numeric::Exp(r)));
      break;
    case Link::kSoftmax:
    case Link::kOneVsRest:
      scores = Normalise(link, raw);
      break;
  }
  return scores;
}

}  // namespace

double DecodeFloat16(uint16_t half) {
  const double sign = (half & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 1023;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

double DecodeBfloat16(uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 7) & 255;
  const int fraction = bits & 127;
  if (exponent == 255) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, -133);
  return sign * std::ldexp(128 + fraction, exponent - 134);
}

double WeightOf(const Model& model, uint64_t feature, uint32_t output) {
  const uint64_t element = feature * model.outputs() + output;
  const std::byte* at = model.weights() + element * WeightSize(model.weight_type());
  switch (model.weight_type()) {
    case WeightType::kFloat32:
      return Load<float>(at);
    case WeightType::kFloat16:
      return DecodeFloat16(Load<uint16_t>(at));
    case WeightType::kBfloat16:
      return DecodeBfloat16(Load<uint16_t>(at));
    case WeightType::kInt8:
      return Load<int8_t>(at);
  }
  std::abort();
}

double GridStep(const Model& model, float max_value) { return std::ldexp(1.0, GridExponent(model, max_value) - 38); }

int64_t ReferenceSteps(const Model& model, const Row& row, uint32_t output) {
  const int exponent = GridExponent(model, LargestValue(model, row));
  Wide sum = 0;
  for (size_t i = 0; i < row.features.size(); ++i) {
    if (row.features[i] >= model.features()) continue;
    const double product = WeightOf(model, row.features[i], output) * static_cast<double>(ValueAt(row, i));
    sum += static_cast<Wide>(std::nearbyint(std::ldexp(product, 38 - exponent)));
  }
  const Wide limit = Wide{1} << 62;
  if (sum > limit || sum < -limit) std::abort();  // the contract's bound
  return static_cast<int64_t>(sum);
}

RowScore ReferenceScore(const Model& model, const Row& row) {
  const double step = GridStep(model, LargestValue(model, row));
  RowScore result;
  for (uint32_t k = 0; k < model.outputs(); ++k) {
    const auto steps = static_cast<double>(ReferenceSteps(model, row, k));
    result.raw.push_back(std::fma(steps, step * model.scale()[k], model.bias()[k]));
  }
  result.scores = ApplyLink(model.link(), result.raw);
  return result;
}

std::vector<RowScore> ReferenceScores(const Model& model, const std::vector<Row>& rows) {
  std::vector<RowScore> results;
  results.reserve(rows.size());
  for (const Row& row : rows) results.push_back(ReferenceScore(model, row));
  return results;
}

}  // namespace widelane::test
