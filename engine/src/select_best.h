// The best k of a row's raw sums. Inlined by force, as numeric.h says why.

#ifndef WIDELANE_ENGINE_SRC_SELECT_BEST_H_
#define WIDELANE_ENGINE_SRC_SELECT_BEST_H_

#include <cstdint>

#include "numeric.h"

namespace widelane {

// Writes the k outputs with the largest raw sums, largest first, equal ones by lower index, and their raw sums.
// 0 < k <= outputs. One comparison an output, and few of them find something: fine for a small k.
WIDELANE_INLINE void SelectBest(const double* __restrict raw, uint32_t outputs, uint32_t k, uint32_t* __restrict best,
                                double* __restrict best_raw) {
  constexpr uint32_t kBlock = 32;
  uint32_t count = 0;
  const auto insert = [&](uint32_t output) {
    uint32_t place = count < k ? count++ : k - 1;
    for (; place > 0 && best_raw[place - 1] < raw[output]; --place) {
      best[place] = best[place - 1];
      best_raw[place] = best_raw[place - 1];
    }
    best[place] = output;
    best_raw[place] = raw[output];
  };
  uint32_t i = 0;
  while (i < k) insert(i++);
  for (; i + kBlock <= outputs; i += kBlock) {
    const double least = best_raw[k - 1];
    int64_t better = 0;
    for (uint32_t j = 0; j < kBlock; ++j) better |= -static_cast<int64_t>(raw[i + j] > least);
    if (better == 0) continue;
    for (uint32_t j = i; j < i + kBlock; ++j) {
      if (raw[j] > best_raw[k - 1]) insert(j);
    }
  }
  for (; i < outputs; ++i) {
    if (raw[i] > best_raw[k - 1]) insert(i);
  }
}

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_SELECT_BEST_H_
