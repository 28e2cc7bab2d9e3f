#include "server/observe/use_metrics.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "prometheus/client_metric.h"
#include "server/observe/metric_family.h"

namespace widelane {

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

void Add(MetricFamily& family, Labels labels, double value) {
  ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
}

MetricFamily Gauge(const char* name, const char* help, uint64_t value) {
  MetricFamily family = MakeFamily(name, help, MetricType::Gauge);
  Add(family, {}, static_cast<double>(value));
  return family;
}

// One metric for each device: what `get` tells of it.
template <typename Get>
MetricFamily OfDevices(const char* name, const char* help, MetricType type, const ServerUse& use,
                       const std::vector<std::string>& devices, Get get) {
  MetricFamily family = MakeFamily(name, help, type);
  for (size_t i = 0; i < std::min(devices.size(), use.engine.devices.size()); ++i) {
    Add(family, {{"device", devices[i]}}, static_cast<double>(get(use.engine.devices[i])));
  }
  return family;
}

MetricFamily DeviceBytes(const ServerUse& use, const std::vector<std::string>& devices) {
  MetricFamily family = MakeFamily("widelane_device_bytes_total",
                                   "Bytes of batches that went over the bus to a GPU, and of results that came back.",
                                   MetricType::Counter);
  for (size_t i = 0; i < std::min(devices.size(), use.engine.devices.size()); ++i) {
    const DeviceUse& device = use.engine.devices[i];
    Add(family, {{"device", devices[i]}, {"direction", "in"}}, static_cast<double>(device.bytes_in));
    Add(family, {{"device", devices[i]}, {"direction", "out"}}, static_cast<double>(device.bytes_out));
  }
  return family;
}

}  // namespace

std::vector<MetricFamily> UseMetrics(const ServerUse& use, const std::vector<std::string>& devices) {
  const auto of_devices = [&](const char* name, const char* help, MetricType type, auto get) {
    return OfDevices(name, help, type, use, devices, get);
  };
  return {
      Gauge("widelane_rows_in_flight", "Rows of requests in the server.", use.rows),
      Gauge("widelane_request_bytes_in_flight", "Bytes of requests in the server.", use.request_bytes),
      Gauge("widelane_reply_bytes_in_flight", "Bytes of replies in the server.", use.reply_bytes),
      Gauge("widelane_queued_requests", "Requests that wait for a slab or a device.", use.waiting.requests),
      Gauge("widelane_queued_rows", "Rows of requests that wait for a slab or a device.", use.waiting.rows),
      Gauge("widelane_queued_bytes", "Bytes of requests that wait for a slab or a device.", use.waiting.bytes),
      Gauge("widelane_slabs", "Batches there may be at once.", use.engine.slabs),
      Gauge("widelane_slabs_in_use", "Batches that are filling, waiting or running.", use.engine.slabs_in_use),
      of_devices("widelane_lanes", "Batches, or pieces of one, that a device may work on at once.", MetricType::Gauge,
                 [](const DeviceUse& device) { return device.lanes; }),
      of_devices("widelane_lanes_busy", "Batches, or pieces of one, that a device works on.", MetricType::Gauge,
                 [](const DeviceUse& device) { return device.lanes_busy; }),
      of_devices("widelane_device_busy_seconds_total", "Time in which a device had something to work on.",
                 MetricType::Counter,
                 [](const DeviceUse& device) { return std::chrono::duration<double>(device.busy).count(); }),
      DeviceBytes(use, devices),
      of_devices("widelane_weight_bytes", "Bytes of models' weights on a device.", MetricType::Gauge,
                 [](const DeviceUse& device) { return device.weight_bytes; }),
      of_devices("widelane_weight_uploads_total", "Times a model's weights were brought to a device.",
                 MetricType::Counter, [](const DeviceUse& device) { return device.weight_uploads; }),
  };
}

}  // namespace widelane
