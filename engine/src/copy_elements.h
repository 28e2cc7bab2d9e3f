// The inner loops of packing: many elements at once, checked and narrowed on the way.

#ifndef WIDELANE_ENGINE_SRC_COPY_ELEMENTS_H_
#define WIDELANE_ENGINE_SRC_COPY_ELEMENTS_H_

#include <cstdint>

#include "widelane/engine/csr.h"
#include "widelane/engine/route.h"

namespace widelane {

// Copies entries [begin, begin + count) of `in` (u16, u32, i32 or i64), those that are not below `features` as
// `features`, and returns how many these were. `features` fits Out, uint16_t or uint32_t. count < 2^32.
template <typename Out>
uint64_t CopyIndices(const TypedArray& in, uint64_t begin, uint64_t count, uint64_t features, Out* out);

// Copies values (f16, f32 or f64), rounded to float; false when one is not a finite float.
bool CopyValues(const TypedArray& in, uint64_t begin, uint64_t count, float* out);
// The same as half precision, which holds each of them exactly or is refused with false.
bool CopyValues(const TypedArray& in, uint64_t begin, uint64_t count, uint16_t* out);

// The largest |value| of finite ones, 0 of none; the second of half precision.
float LargestOf(const float* values, uint64_t count);
float LargestOf(const uint16_t* values, uint64_t count);

// The narrowest kind that holds values [begin, begin + count). Reads each at most twice.
Values NarrowestOf(const TypedArray& values, uint64_t begin, uint64_t count);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_COPY_ELEMENTS_H_
