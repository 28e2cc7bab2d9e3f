#define WIDELANE_ISA plain
#include "cpu/row_kernels.inc"  // NOLINT(bugprone-suspicious-include)
