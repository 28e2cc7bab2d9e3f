#include "server/observe/gpu_telemetry.h"

#include <functional>
#include <optional>

#include "server/observe/gpu_telemetry_reader.h"
#include "server/observe/metric_family.h"

namespace widelane {

namespace {

using Shown = GpuTelemetryReader::Shown;
using Families = std::vector<prometheus::MetricFamily>;
using Label = prometheus::ClientMetric::Label;
using Value = std::function<std::optional<double>(const Shown& gpu)>;

prometheus::MetricFamily& AddFamily(Families& families, const char* name, const char* help) {
  return families.emplace_back(MakeFamily(name, help, prometheus::MetricType::Gauge));
}

// A sample of each GPU that has the value; `label`, if there is one, beside the device's.
void AddSamples(prometheus::MetricFamily& family, const std::vector<Shown>& gpus, const Value& value,
                const std::optional<Label>& label = {}) {
  for (const Shown& gpu : gpus) {
    const std::optional<double> number = value(gpu);
    if (!number.has_value()) continue;
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label.push_back({"device", gpu.id});
    if (label.has_value()) metric.label.push_back(*label);
    metric.gauge.value = *number;
  }
}

}  // namespace

GpuTelemetry::GpuTelemetry(const std::vector<std::string>& gpus, const GpuTelemetryOptions& options, Clock& clock)
    : patience_(options.patience),
      reader_(std::make_shared<GpuTelemetryReader>(gpus, options, clock)),
      thread_([reader = reader_] { reader->Run(); }) {}

GpuTelemetry::~GpuTelemetry() {
  if (reader_->Stop(patience_)) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

Families GpuTelemetry::Collect() {
  const std::vector<Shown> gpus = reader_->Show();
  Families families;
  const auto add = [&](const char* name, const char* help, const Value& value) {
    AddSamples(AddFamily(families, name, help), gpus, value);
  };
  add("widelane_gpu_telemetry_up", "1 when something of the GPU could be read in the last seconds.",
      [](const Shown& gpu) { return gpu.up ? 1.0 : 0.0; });
  add("widelane_gpu_utilization_ratio", "Share of the time in which a kernel of any process ran.",
      [](const Shown& gpu) { return gpu.reading.utilization_ratio; });
  add("widelane_gpu_memory_used_bytes", "Memory of the GPU that all processes use.",
      [](const Shown& gpu) { return gpu.reading.memory_used_bytes; });
  add("widelane_gpu_memory_bytes", "Memory of the GPU.", [](const Shown& gpu) { return gpu.reading.memory_bytes; });
  add("widelane_gpu_power_watts", "Power the GPU draws.", [](const Shown& gpu) { return gpu.reading.power_watts; });
  add("widelane_gpu_temperature_celsius", "Temperature of the GPU.",
      [](const Shown& gpu) { return gpu.reading.temperature_celsius; });

  prometheus::MetricFamily& clocks = AddFamily(families, "widelane_gpu_clock_hertz", "Clocks of the GPU.");
  AddSamples(
      clocks, gpus, [](const Shown& gpu) { return gpu.reading.sm_clock_hertz; }, Label{"clock", "sm"});
  AddSamples(
      clocks, gpus, [](const Shown& gpu) { return gpu.reading.memory_clock_hertz; }, Label{"clock", "memory"});
  prometheus::MetricFamily& traffic = AddFamily(families, "widelane_gpu_pcie_bytes_per_second",
                                                "Bytes over PCI Express, measured for 20 ms, as the GPU sees them.");
  AddSamples(
      traffic, gpus, [](const Shown& gpu) { return gpu.traffic.in; }, Label{"direction", "in"});
  AddSamples(
      traffic, gpus, [](const Shown& gpu) { return gpu.traffic.out; }, Label{"direction", "out"});
  return families;
}

}  // namespace widelane
