#define WIDELANE_ISA avx2
#include "cpu/row_kernels.inc"  // NOLINT(bugprone-suspicious-include)
