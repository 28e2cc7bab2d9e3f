// A CUDA driver library that cannot be used, for tests of what the server does then.
//
// The CUDA runtime opens libcuda.so.1, asks cuGetProcAddress_v2 for every function, then calls cuDriverGetVersion and
// cuInit. Here
//   WIDELANE_FAKE_CUINIT          is what cuInit returns (default 100: no device)
//   WIDELANE_FAKE_CUINIT_SLEEP_S  is how many seconds it takes to return
// and every other function fails.

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kSuccess = 0, kNotInitialized = 3, kNotFound = 500, kVersion = 13000 };

static int Fail(void) { return kNotInitialized; }

int cuInit(unsigned flags) {
  (void)flags;
  const char* seconds = getenv("WIDELANE_FAKE_CUINIT_SLEEP_S");
  if (seconds != NULL) sleep((unsigned)strtoul(seconds, NULL, 10));
  const char* code = getenv("WIDELANE_FAKE_CUINIT");
  return code != NULL ? (int)strtol(code, NULL, 10) : 100;
}

int cuDriverGetVersion(int* version) {
  *version = kVersion;
  return kSuccess;
}

int cuGetExportTable(const void** table, const void* id) {
  (void)id;
  *table = NULL;
  return kNotFound;
}

int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long flags, int* found) {
  (void)version;
  (void)flags;
  if (found != NULL) *found = 0;
  if (strcmp(name, "cuInit") == 0) {
    *function = (void*)cuInit;
  } else if (strcmp(name, "cuDriverGetVersion") == 0) {
    *function = (void*)cuDriverGetVersion;
  } else if (strcmp(name, "cuGetExportTable") == 0) {
    *function = (void*)cuGetExportTable;
  } else if (strcmp(name, "cuGetProcAddress") == 0) {
    *function = (void*)cuGetProcAddress_v2;
  } else {
    *function = *name != '\0' ? (void*)Fail : NULL;
  }
  return kSuccess;
}

// Runtimes of CUDA 11 ask by the older name.
int cuGetProcAddress(const char* name, void** function, int version, unsigned long long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
