// How many cores this process may use, which is not how many the machine has.

#ifndef WIDELANE_ENGINE_USABLE_CORES_H_
#define WIDELANE_ENGINE_USABLE_CORES_H_

#include <cstddef>
#include <optional>
#include <string>

namespace widelane {

// The affinity mask and the CPU quota of the process's control group (version 2 or 1), whichever is less; a quota
// of 1.5 cores counts as 2. At least 1.
size_t UsableCores();
// Whether a control group limits the time on them, so that waiting in a loop is paid for.
bool HasCpuQuota();

// Cores of a control group quota: from the text of cpu.max ("150000 100000"), or of cpu.cfs_quota_us and
// cpu.cfs_period_us. Absent when there is no limit or the text is not understood.
std::optional<double> QuotaFromCpuMax(const std::string& text);
std::optional<double> QuotaFromCfs(const std::string& quota, const std::string& period);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_USABLE_CORES_H_
