// Memory that this process has, in bytes; 0 where the system does not tell.

#ifndef WIDELANE_CLIENT_CLI_BENCH_MEMORY_H_
#define WIDELANE_CLIENT_CLI_BENCH_MEMORY_H_

#include <cstdint>

namespace widelane::cli {

uint64_t HostMemoryNow();
// The most since the start, or since ForgetHostPeak where that is allowed.
uint64_t HostMemoryPeak();
void ForgetHostPeak();

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_BENCH_MEMORY_H_
