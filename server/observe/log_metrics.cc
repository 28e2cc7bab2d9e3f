#include "server/observe/log_metrics.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "server/observe/metric_family.h"

namespace widelane {

namespace {

std::array<std::atomic<uint64_t>, spdlog::level::n_levels> lines{};
std::atomic<uint64_t> held_back{0};

prometheus::MetricFamily Counter(const char* name, const char* help) {
  return MakeFamily(name, help, prometheus::MetricType::Counter);
}

void AddCount(prometheus::MetricFamily& family, const std::atomic<uint64_t>& count) {
  family.metric.emplace_back().counter.value = static_cast<double>(count.load(std::memory_order_relaxed));
}

}  // namespace

void CountLine(spdlog::level::level_enum level) {
  lines[static_cast<size_t>(level)].fetch_add(1, std::memory_order_relaxed);
}

void CountLineHeldBack() { held_back.fetch_add(1, std::memory_order_relaxed); }

std::vector<prometheus::MetricFamily> CollectLogMetrics() {
  prometheus::MetricFamily written = Counter("widelane_log_lines_total", "Lines written to the log.");
  for (size_t level = 0; level < spdlog::level::off; ++level) {
    AddCount(written, lines[level]);
    const auto name = spdlog::level::to_string_view(static_cast<spdlog::level::level_enum>(level));
    written.metric.back().label.push_back({"level", std::string(name.data(), name.size())});
  }
  prometheus::MetricFamily held =
      Counter("widelane_log_lines_held_back_total", "Lines not written because the same had been many times.");
  AddCount(held, held_back);
  return {std::move(written), std::move(held)};
}

}  // namespace widelane
