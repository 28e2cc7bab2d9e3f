#include "client/cli/bench_memory.h"

#include <fstream>
#include <string>

namespace widelane::cli {
namespace {

// "VmRSS:     1234 kB".
uint64_t StatusLine(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    uint64_t kib = 0;
    if (word == name && status >> kib) return kib << 10;
  }
  return 0;
}

}  // namespace

uint64_t HostMemoryNow() { return StatusLine("VmRSS:"); }
uint64_t HostMemoryPeak() { return StatusLine("VmHWM:"); }
// 5 resets the peak (proc(5)).
void ForgetHostPeak() { std::ofstream("/proc/self/clear_refs") << 5; }

}  // namespace widelane::cli
