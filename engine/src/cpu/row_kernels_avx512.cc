#define WIDELANE_ISA avx512
#include "cpu/row_kernels.inc"  // NOLINT(bugprone-suspicious-include)
