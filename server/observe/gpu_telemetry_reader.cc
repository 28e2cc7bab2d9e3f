#include "server/observe/gpu_telemetry_reader.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace widelane {

GpuTelemetryReader::GpuTelemetryReader(const std::vector<std::string>& gpus, const GpuTelemetryOptions& options,
                                       Clock& clock)
    : options_(options), clock_(clock), started_(clock.Now()), retry_at_(started_) {
  for (const std::string& id : gpus) gpus_.emplace_back().id = id;
}

void GpuTelemetryReader::Run() {
  for (std::optional<TimePoint> begin = Now(); begin.has_value(); begin = Now()) {
    if (SomeDown() && *begin >= retry_at_) Open(*begin);
    ReadAll();
    TellChange();
    ReadTraffic(*begin);
    if (!WaitUntil(*begin + options_.period)) break;
  }
  nvml_.reset();
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

bool GpuTelemetryReader::Stop(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  return changed_.wait_for(lock, patience, [this] { return ended_; });
}

// All GPUs are looked up again, as what was got from the library before goes with it.
void GpuTelemetryReader::Open(TimePoint now) {
  retry_at_ = now + options_.retry;
  nvml_.reset();
  auto nvml = Nvml::Open(options_.library);
  const absl::Status opened = nvml.status();
  if (opened.ok()) nvml_ = *std::move(nvml);
  for (Gpu& gpu : gpus_) {
    const auto found = opened.ok() ? nvml_->Find(gpu.id) : absl::StatusOr<Nvml::Gpu>(opened);
    gpu.handle = found.ok() ? *found : nullptr;
    gpu.problem = std::string(found.status().message());
  }
}

void GpuTelemetryReader::ReadAll() {
  for (Gpu& gpu : gpus_) {
    if (gpu.handle == nullptr) {
      Publish(gpu, absl::UnavailableError(gpu.problem));
    } else {
      Publish(gpu, nvml_->Read(gpu.handle));
    }
  }
}

void GpuTelemetryReader::Publish(Gpu& gpu, const absl::StatusOr<GpuReading>& reading) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  gpu.up = reading.ok();
  if (reading.ok()) {
    gpu.reading = *reading;
    gpu.read = clock_.Now();
  } else {
    gpu.handle = nullptr;
    gpu.problem = std::string(reading.status().message());
    gpu.traffic = {};
  }
}

// One line when GPUs are lost, one when the last of them is back.
void GpuTelemetryReader::TellChange() {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  tried_ = true;
  std::string lost;
  for (const Gpu& gpu : gpus_) {
    if (!gpu.up) absl::StrAppend(&lost, lost.empty() ? "" : "; ", gpu.id, ": ", gpu.problem);
  }
  const bool hung = std::exchange(hanging_, false);
  if (lost == told_ && !hung) return;
  if (lost.empty()) {
    spdlog::info("telemetry of all GPUs is there");
  } else {
    spdlog::warn("no telemetry of GPUs, tried again every {} s: {}", options_.retry.count() / 1000, lost);
  }
  told_ = std::move(lost);
}

// Takes long, so it comes last and has half of the time; the rest goes on where it has stopped.
void GpuTelemetryReader::ReadTraffic(TimePoint begin) {
  for (size_t i = 0; i < gpus_.size(); ++i) {
    const std::optional<TimePoint> now = Now();
    if (!now.has_value() || *now - begin > options_.period / 2) return;
    Gpu& gpu = gpus_[next_traffic_++ % gpus_.size()];
    if (gpu.handle == nullptr) continue;
    const GpuTraffic traffic = nvml_->ReadTraffic(gpu.handle);
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    gpu.traffic = traffic;
    gpu.traffic_read = clock_.Now();
  }
}

bool GpuTelemetryReader::SomeDown() const {
  return std::any_of(gpus_.begin(), gpus_.end(), [](const Gpu& gpu) { return gpu.handle == nullptr; });
}

std::optional<Clock::TimePoint> GpuTelemetryReader::Now() {
  const std::lock_guard lock(mutex_);
  if (stopping_) return {};
  return clock_.Now();
}

bool GpuTelemetryReader::WaitUntil(TimePoint time) {
  std::unique_lock lock(mutex_);
  while (!stopping_ && clock_.Now() < time) clock_.Wait(lock, changed_, time);
  return !stopping_;
}

// The thread cannot say that it hangs, so those who look do.
std::vector<GpuTelemetryReader::Shown> GpuTelemetryReader::Show() {
  const std::lock_guard lock(mutex_);
  if (stopping_) return {};
  const TimePoint now = clock_.Now();
  const auto fresh = [&](TimePoint time) { return now - time <= options_.stale; };
  if (!tried_ && fresh(started_)) return {};
  std::vector<Shown> all;
  bool hanging = !tried_;
  for (const Gpu& gpu : gpus_) {
    Shown& shown = all.emplace_back();
    shown.id = gpu.id;
    shown.up = gpu.up && fresh(gpu.read);
    hanging = hanging || shown.up != gpu.up;
    if (!shown.up) continue;
    shown.reading = gpu.reading;
    if (fresh(gpu.traffic_read)) shown.traffic = gpu.traffic;
  }
  if (hanging && !std::exchange(hanging_, true)) spdlog::warn("no telemetry of GPUs: NVML does not answer");
  return all;
}

}  // namespace widelane
