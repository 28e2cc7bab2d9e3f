// The numeric contract once more, slowly and by other means, for tests to compare every backend with, bit by bit.
//
// Sums are 128-bit integers, rounding is the C library's, weights are decoded with ldexp. Only Exp, Sigmoid and Share
// are the engine's own, since the contract is about those very functions. All functions are pure.

#ifndef WIDELANE_TESTS_SUPPORT_REFERENCE_H_
#define WIDELANE_TESTS_SUPPORT_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "widelane/engine/model.h"

namespace widelane::test {

// One row as a person would write it. `values` is empty when all are 1.
struct Row {
  std::vector<uint32_t> features;
  std::vector<float> values;
};

struct RowScore {
  std::vector<double> raw;    // [outputs]
  std::vector<float> scores;  // [outputs]
};

// Half precision and bfloat16 by their definitions.
double DecodeFloat16(uint16_t half);
double DecodeBfloat16(uint16_t bits);

// The weight of `feature` for `output`, before the scale.
double WeightOf(const Model& model, uint64_t feature, uint32_t output);

// 2^(E - 38), the grid step of a row whose largest |value| is `max_value`.
double GridStep(const Model& model, float max_value);

// The row's sum for `output` in grid steps. Features the model does not have count nothing.
int64_t ReferenceSteps(const Model& model, const Row& row, uint32_t output);

RowScore ReferenceScore(const Model& model, const Row& row);
std::vector<RowScore> ReferenceScores(const Model& model, const std::vector<Row>& rows);

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_REFERENCE_H_
