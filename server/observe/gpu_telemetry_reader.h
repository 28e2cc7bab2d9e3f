// What the thread of GpuTelemetry does, and what it has read. Not for others.

#ifndef WIDELANE_SERVER_OBSERVE_GPU_TELEMETRY_READER_H_
#define WIDELANE_SERVER_OBSERVE_GPU_TELEMETRY_READER_H_

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/observe/gpu_telemetry.h"
#include "server/observe/nvml.h"

namespace widelane {

class GpuTelemetryReader {
 public:
  // A GPU as it is to be shown.
  struct Shown {
    std::string id;
    bool up = false;
    GpuReading reading;
    GpuTraffic traffic;
  };

  GpuTelemetryReader(const std::vector<std::string>& gpus, const GpuTelemetryOptions& options, Clock& clock);

  // Reads until it is told to stop.
  void Run();
  // After this neither the clock nor the log is used any more. False when Run has not ended after `patience`.
  bool Stop(std::chrono::milliseconds patience);
  // Any thread. Empty until every GPU has been tried.
  std::vector<Shown> Show();

 private:
  using TimePoint = Clock::TimePoint;

  struct Gpu {
    std::string id;
    // The thread's own; null: it cannot be read until NVML is opened anew.
    Nvml::Gpu handle = nullptr;
    std::string problem;
    // Guarded by mutex_.
    bool up = false;
    GpuReading reading;
    TimePoint read;
    GpuTraffic traffic;
    TimePoint traffic_read;
  };

  void Open(TimePoint now);
  void ReadAll();
  void ReadTraffic(TimePoint begin);
  void Publish(Gpu& gpu, const absl::StatusOr<GpuReading>& reading);
  void TellChange();
  bool SomeDown() const;
  // The time, unless the thread is to stop.
  std::optional<TimePoint> Now();
  bool WaitUntil(TimePoint time);

  const GpuTelemetryOptions options_;
  Clock& clock_;
  const TimePoint started_;
  std::unique_ptr<Nvml> nvml_;
  TimePoint retry_at_;
  size_t next_traffic_ = 0;
  std::string told_;  // what the log has last said is wrong

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Gpu> gpus_;
  bool tried_ = false;
  bool hanging_ = false;  // and the log has said so
  bool stopping_ = false;
  bool ended_ = false;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_GPU_TELEMETRY_READER_H_
