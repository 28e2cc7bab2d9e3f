// How the GPUs are that the engine uses, read from NVML by a thread of its own. Whatever NVML does, neither scoring
// nor a scrape nor the stop waits for it.

#ifndef WIDELANE_SERVER_OBSERVE_GPU_TELEMETRY_H_
#define WIDELANE_SERVER_OBSERVE_GPU_TELEMETRY_H_

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/batching/clock.h"
#include "server/observe/metric_source.h"

namespace widelane {

struct GpuTelemetryOptions {
  std::string library = "libnvidia-ml.so.1";
  std::chrono::milliseconds period{1000};    // between readings
  std::chrono::milliseconds retry{30000};    // after a GPU could not be read; NVML is opened anew then
  std::chrono::milliseconds stale{5000};     // a reading older than this is not shown
  std::chrono::milliseconds patience{1000};  // the destructor's, with a call that does not come back
};

class GpuTelemetryReader;

class GpuTelemetry : public MetricSource {
 public:
  // `gpus`: their ids, as the engine tells them. The clock outlives the object.
  GpuTelemetry(const std::vector<std::string>& gpus, const GpuTelemetryOptions& options, Clock& clock);
  // Leaves the thread behind when NVML does not come back in time; it touches nothing of others then.
  ~GpuTelemetry() override;

  std::vector<prometheus::MetricFamily> Collect() override;

 private:
  const std::chrono::milliseconds patience_;
  const std::shared_ptr<GpuTelemetryReader> reader_;  // the thread's as well
  std::thread thread_;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_GPU_TELEMETRY_H_
