#include "widelane/engine/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace widelane {

namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

size_t AffinityCores() {
  cpu_set_t set;
  // A machine with more cores than the set has room for refuses the question.
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return std::max(1U, std::thread::hardware_concurrency());
  return static_cast<size_t>(std::max(1, CPU_COUNT(&set)));
}

// Path of the process's group for `controller` ("" for version 2), from lines "id:controllers:path".
std::string GroupPath(const std::string& controller) {
  for (absl::string_view line : absl::StrSplit(ReadFile("/proc/self/cgroup"), '\n')) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), controller) != controllers.end()) return parts[2];
  }
  return "";
}

// The tightest quota from the process's group up to the root. Inside a container the root is the container's own group.
std::optional<double> GroupQuota() {
  std::optional<double> least;
  const auto keep = [&least](std::optional<double> quota) {
    if (quota.has_value() && (!least.has_value() || *quota < *least)) least = quota;
  };
  for (std::string path = GroupPath("");; path = path.substr(0, path.find_last_of('/'))) {
    keep(QuotaFromCpuMax(ReadFile("/sys/fs/cgroup" + path + "/cpu.max")));
    if (path.find('/') == std::string::npos) break;
  }
  for (const std::string& path : {GroupPath("cpu"), std::string()}) {
    const std::string folder = "/sys/fs/cgroup/cpu" + path;
    keep(QuotaFromCfs(ReadFile(folder + "/cpu.cfs_quota_us"), ReadFile(folder + "/cpu.cfs_period_us")));
  }
  return least;
}

}  // namespace

std::optional<double> QuotaFromCpuMax(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  if (parts.size() != 2) return std::nullopt;
  return QuotaFromCfs(parts[0], parts[1]);
}

std::optional<double> QuotaFromCfs(const std::string& quota, const std::string& period) {
  double quota_us = 0;
  double period_us = 0;
  if (!absl::SimpleAtod(quota, &quota_us) || !absl::SimpleAtod(period, &period_us)) return std::nullopt;
  if (!(quota_us > 0) || !(period_us > 0)) return std::nullopt;
  return quota_us / period_us;
}

bool HasCpuQuota() { return GroupQuota().has_value(); }

size_t UsableCores() {
  const size_t cores = AffinityCores();
  const std::optional<double> quota = GroupQuota();
  if (!quota.has_value()) return cores;
  return std::min(cores, static_cast<size_t>(std::max(1.0, std::ceil(*quota))));
}

}  // namespace widelane
