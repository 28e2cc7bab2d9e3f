#include "server/observe/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "server/observe/metric_family.h"

namespace widelane {

namespace {

class ProcessFamilies {
 public:
  void Add(const char* name, const char* help, prometheus::MetricType type, double value) {
    prometheus::ClientMetric metric;
    if (type == prometheus::MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
    families_.push_back(MakeFamily(name, help, type));
    families_.back().metric.push_back(std::move(metric));
  }
  void AddGauge(const char* name, const char* help, double value) {
    Add(name, help, prometheus::MetricType::Gauge, value);
  }
  std::vector<prometheus::MetricFamily> Take() { return std::move(families_); }

 private:
  std::vector<prometheus::MetricFamily> families_;
};

// Seconds since the epoch at which the machine started; 0 if that cannot be told.
double BootTime() {
  std::ifstream in("/proc/stat");
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind("btime ", 0) == 0) return std::stod(line.substr(6));
  }
  return 0;
}

// Fields of /proc/self/stat, counted from "state" (field 3 in proc(5)).
std::vector<double> StatFields() {
  std::ifstream in("/proc/self/stat");
  std::string text;
  std::getline(in, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  std::string state;
  fields >> state;
  std::vector<double> values{0};
  for (double value = 0; fields >> value;) values.push_back(value);
  return values;
}

void AddStat(ProcessFamilies& families) {
  constexpr size_t kUserTime = 14 - 3;
  constexpr size_t kSystemTime = 15 - 3;
  constexpr size_t kThreads = 20 - 3;
  constexpr size_t kStartTime = 22 - 3;
  constexpr size_t kVirtualBytes = 23 - 3;
  constexpr size_t kResidentPages = 24 - 3;
  const std::vector<double> fields = StatFields();
  if (fields.size() <= kResidentPages) return;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  families.Add("process_cpu_seconds_total", "CPU time the process has used.", prometheus::MetricType::Counter,
               (fields[kUserTime] + fields[kSystemTime]) / ticks);
  families.AddGauge("process_threads", "Threads of the process.", fields[kThreads]);
  families.AddGauge("process_virtual_memory_bytes", "Address space of the process.", fields[kVirtualBytes]);
  families.AddGauge("process_resident_memory_bytes", "Memory of the process that is resident.",
                    fields[kResidentPages] * static_cast<double>(sysconf(_SC_PAGESIZE)));
  static const double boot_time = BootTime();
  if (boot_time > 0) {
    families.AddGauge("process_start_time_seconds", "When the process started, in seconds since the epoch.",
                      boot_time + fields[kStartTime] / ticks);
  }
}

void AddFiles(ProcessFamilies& families) {
  std::error_code error;
  size_t open = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end; it.increment(error))
    ++open;
  if (!error) families.AddGauge("process_open_fds", "Open file descriptors.", static_cast<double>(open));
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    families.AddGauge("process_max_fds", "Most file descriptors the process may open.",
                      static_cast<double>(limit.rlim_cur));
  }
}

}  // namespace

std::vector<prometheus::MetricFamily> CollectProcessMetrics() {
  ProcessFamilies families;
  AddStat(families);
  AddFiles(families);
  return families.Take();
}

}  // namespace widelane
