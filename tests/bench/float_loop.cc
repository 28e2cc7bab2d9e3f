#include "float_loop.h"

#include <cmath>

namespace widelane::bench {

namespace {

template <typename Index>
__attribute__((noinline)) void Sum(const float* __restrict weights, const Index* __restrict indices,
                                   const BatchView& batch) {
  for (uint32_t r = 0; r < batch.rows; ++r) {
    float sum = 0;
    for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) sum += weights[indices[i]];
    batch.scores[r] = sum;
  }
}

}  // namespace

void FloatLoop(const float* weights, bool sigmoid, const BatchView& batch) {
  if (batch.indices16 != nullptr) {
    Sum(weights, batch.indices16, batch);
  } else {
    Sum(weights, batch.indices32, batch);
  }
  if (!sigmoid) return;
  for (uint32_t r = 0; r < batch.rows; ++r) batch.scores[r] = 1 / (1 + std::exp(-batch.scores[r]));
}

}  // namespace widelane::bench
