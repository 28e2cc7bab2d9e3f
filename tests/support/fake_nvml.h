// What the libnvidia-ml of tests (fake_nvml.c) does; the test sets it in the variable "fake_nvml" of that library. All
// numbers are read and written with __atomic builtins.
//
// Codes are NVML's own: 0 is success, 3 not supported, 6 not found, 999 unknown.

#ifndef WIDELANE_TESTS_SUPPORT_FAKE_NVML_H_
#define WIDELANE_TESTS_SUPPORT_FAKE_NVML_H_

enum { kFakeNvmlGpus = 2 };

struct FakeNvml {
  int init_code;
  int opened;                    // calls of init that succeeded, less calls of shutdown
  int gpu_code[kFakeNvmlGpus];   // what every call for this GPU returns
  int utilization_code;          // the same for this call
  int utilization_percent;       // what it tells
  int traffic_code;              // and for this
  int hang;                      // while this is not 0, no call for a GPU returns
  int calls;                     // for GPUs, so far
  char uuid[kFakeNvmlGpus][48];  // set before the library is used
};

#endif  // WIDELANE_TESTS_SUPPORT_FAKE_NVML_H_
