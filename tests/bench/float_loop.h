// The loop that exact sums are held against: float32 weights, a float32 sum, nothing else.

#ifndef WIDELANE_TESTS_BENCH_FLOAT_LOOP_H_
#define WIDELANE_TESTS_BENCH_FLOAT_LOOP_H_

#include "widelane/engine/batch_view.h"

namespace widelane::bench {

// Scores of all rows of a model with one output and no bias, by expf if `sigmoid`. All values are 1.
void FloatLoop(const float* weights, bool sigmoid, const BatchView& batch);

}  // namespace widelane::bench

#endif  // WIDELANE_TESTS_BENCH_FLOAT_LOOP_H_
