// A libnvidia-ml that obeys a test, as fake_nvml.h says. Every GPU has 80 GB, 30 of them used, draws 123.456 W, is at
// 45 degrees, runs at 1,980 and 2,619 MHz, receives 2,000 KB/s and sends 1,000.

#include "tests/support/fake_nvml.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum { kSuccess = 0, kNotFound = 6 };

struct Utilization {
  unsigned gpu;
  unsigned memory;
};

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct FakeNvml fake_nvml;

static int Get(const int* number) { return __atomic_load_n(number, __ATOMIC_SEQ_CST); }
static void Add(int* number, int by) { __atomic_add_fetch(number, by, __ATOMIC_SEQ_CST); }

// A handle is where the GPU's code is.
static int CodeOf(void* gpu) {
  Add(&fake_nvml.calls, 1);
  while (Get(&fake_nvml.hang) != 0) usleep(1000);
  return Get(gpu);
}

static int Tell(void* gpu, unsigned* out, unsigned value) {
  *out = value;
  return CodeOf(gpu);
}

int nvmlInit_v2(void) {
  const int code = Get(&fake_nvml.init_code);
  if (code == kSuccess) Add(&fake_nvml.opened, 1);
  return code;
}

int nvmlShutdown(void) {
  Add(&fake_nvml.opened, -1);
  return kSuccess;
}

const char* nvmlErrorString(int code) { return code == kNotFound ? "Not Found" : "Unknown Error"; }

int nvmlDeviceGetHandleByUUID(const char* uuid, void** gpu) {
  for (int i = 0; i < kFakeNvmlGpus; ++i) {
    if (fake_nvml.uuid[i][0] == '\0' || strcmp(uuid, fake_nvml.uuid[i]) != 0) continue;
    *gpu = &fake_nvml.gpu_code[i];
    return CodeOf(*gpu);
  }
  return kNotFound;
}

int nvmlDeviceGetUtilizationRates(void* gpu, struct Utilization* rates) {
  const int code = Get(&fake_nvml.utilization_code);
  rates->gpu = (unsigned)Get(&fake_nvml.utilization_percent);
  rates->memory = 0;
  return code != kSuccess ? code : CodeOf(gpu);
}

int nvmlDeviceGetMemoryInfo(void* gpu, struct Memory* memory) {
  memory->total = 80000000000;
  memory->used = 30000000000;
  memory->free = memory->total - memory->used;
  return CodeOf(gpu);
}

int nvmlDeviceGetPowerUsage(void* gpu, unsigned* milliwatts) { return Tell(gpu, milliwatts, 123456); }

int nvmlDeviceGetTemperature(void* gpu, int sensor, unsigned* celsius) {
  (void)sensor;
  return Tell(gpu, celsius, 45);
}

int nvmlDeviceGetClockInfo(void* gpu, int clock, unsigned* megahertz) {
  return Tell(gpu, megahertz, clock == 1 ? 1980 : 2619);
}

int nvmlDeviceGetPcieThroughput(void* gpu, int counter, unsigned* kilobytes_per_second) {
  const int code = Get(&fake_nvml.traffic_code);
  return code != kSuccess ? code : Tell(gpu, kilobytes_per_second, counter == 1 ? 2000 : 1000);
}
