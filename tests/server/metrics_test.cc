#include "server/observe/metrics.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "server/front/limits.h"
#include "server/observe/gpu_telemetry.h"
#include "server/tls/key_pair_watch.h"
#include "tests/support/certificates.h"
#include "tests/support/expect.h"
#include "tests/support/fake_nvml_library.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"

namespace widelane {
namespace {

using test::TestServer;

const char* TypeName(prometheus::MetricType type) {
  switch (type) {
    case prometheus::MetricType::Counter:
      return "counter";
    case prometheus::MetricType::Gauge:
      return "gauge";
    case prometheus::MetricType::Histogram:
      return "histogram";
    default:
      return "other";
  }
}

std::set<std::string> LinesOf(const std::string& text) {
  std::istringstream in(text);
  std::set<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line[0] != '#') lines.insert(line);
  }
  return lines;
}

// "name type label,label", each once.
std::set<std::string> Describe(const std::vector<prometheus::MetricFamily>& families) {
  std::set<std::string> lines;
  for (const prometheus::MetricFamily& family : families) {
    std::set<std::string> labels;
    for (const auto& label : family.metric.front().label) labels.insert(label.name);
    std::string line = family.name + " " + TypeName(family.type);
    for (const std::string& label : labels) line += (label == *labels.begin() ? " " : ",") + label;
    lines.insert(line);
  }
  return lines;
}

// The last that is read.
bool HasTraffic(GpuTelemetry& telemetry) { return !telemetry.Collect().back().metric.empty(); }

// All metrics with all their labels: what users' dashboards and alerts rest on.
TEST(MetricsTest, NamesAndLabelsAreThoseOfTheGoldenFile) {
  EngineOptions options;
  options.devices.kind = DeviceSelection::Kind::kCpu;
  options.slab = {.rows = 16, .entries = 16, .results = 16};
  options.slabs = 1;
  options.cpu_threads = 1;
  options.measure_costs = false;
  const std::unique_ptr<Engine> engine = *Engine::Create(options);
  Metrics metrics({.triton = true});
  metrics.SetDevices(engine->devices(), false);
  metrics.SetUse([&engine] { return ServerUse{0, 0, 0, {}, engine->use()}; });
  ServedModel served({"m", 1, ""}, metrics.AddModel({"m", 1, ""}));
  served.SetAvailable(*engine->Load(test::R4()));
  metrics.OnModelState(served, engine->devices(), std::chrono::milliseconds(1));
  const test::FakeNvmlLibrary nvml({"GPU-1"});
  GpuTelemetry telemetry({"GPU-1"}, {.library = nvml.path()}, Clock::Steady());
  ASSERT_TRUE(test::Eventually([&] { return HasTraffic(telemetry); }, std::chrono::seconds(30)));
  metrics.AddSource(telemetry);
  const test::TempDir files;
  const test::MadePair pair = test::Authority().Issue(1);
  TlsConfig config;
  config.certificate = files.Write("tls.crt", pair.certificate);
  config.private_key = files.Write("tls.key", pair.private_key);
  const auto tls = *KeyPairWatch::Start(config, Clock::Steady());
  metrics.AddSource(*tls);
  std::ifstream in(WIDELANE_METRICS_GOLDEN);
  std::stringstream golden;
  golden << in.rdbuf();
  EXPECT_EQ(Describe(metrics.Collect()), LinesOf(golden.str()));
}

TEST(MetricsTest, TheReadmeHasEveryMetric) {
  std::ifstream in(WIDELANE_SERVER_README);
  std::stringstream readme;
  readme << in.rdbuf();
  std::ifstream golden(WIDELANE_METRICS_GOLDEN);
  for (std::string line; std::getline(golden, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::string name = line.substr(0, line.find(' '));
    EXPECT_NE(readme.str().find("`" + name + "`"), std::string::npos) << name;
  }
}

TEST(MetricsTest, TritonsNamesAreAnOption) { EXPECT_EQ(Metrics().Page().find("nv_inference"), std::string::npos); }

TEST(MetricsTest, OneFamilyOneName) {
  Metrics metrics({.triton = true});
  std::set<std::string> names;
  for (const auto& family : metrics.Collect()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_EQ(family.help.find_first_of("\\\n"), std::string::npos) << family.name;  // they are written as they are
    EXPECT_FALSE(family.help.empty()) << family.name;
  }
}

TEST(MetricsTest, CountsRefusalsByReason) {
  Metrics metrics;
  metrics.OnRefused(LimitError(kMaxRequestRows, 1, "", 2));
  metrics.OnRefused(absl::DeadlineExceededError(""));
  metrics.OnRefused(absl::InvalidArgumentError(""));
  const std::string page = metrics.Page();
  EXPECT_NE(page.find("widelane_refused_total{reason=\"max-request-rows\"} 1"), std::string::npos);
  EXPECT_NE(page.find("widelane_refused_total{reason=\"deadline\"} 1"), std::string::npos);
}

TEST(MetricsTest, CountsDeviceFailuresOnce) {
  Metrics metrics;
  for (const uint64_t failures : {0, 2, 1, 2, 3}) metrics.OnDeviceFailures(failures);
  EXPECT_NE(metrics.Page().find("widelane_device_failures_total 3"), std::string::npos);
}

TEST(MetricsTest, CountNothingWhenTheyAreOff) {
  EXPECT_TRUE(Metrics().on());
  Metrics metrics({.on = false});
  EXPECT_FALSE(metrics.on());
  const ModelMetrics& model = *metrics.AddModel({"m", 1, ""});
  const auto shown = [&metrics] {
    std::set<std::string> lines = LinesOf(metrics.Page());
    std::erase_if(lines, [](const std::string& line) { return !line.starts_with("widelane_"); });
    return lines;
  };
  const std::set<std::string> before = shown();
  metrics.OnCallStart();
  EXPECT_EQ(shown(), before);
  metrics.OnRequestBytes(10);
  metrics.OnBatchClosed(CloseReason::kAlone);
  metrics.OnScored(
      model,
      {.rows = 1, .entries = 2, .ignored_features = 3, .reply_bytes = 4, .times = {}, .received = {}, .handed = {}});
  const auto now = std::chrono::steady_clock::now();
  metrics.OnCallEnd(Method::kScore, 0, now, now, now);
  EXPECT_EQ(shown(), before);
}

TEST(MetricsTest, AnUnknownModelNeverBecomesALabel) {
  TestServer server({{"r4", test::R4()}});
  server.Score(test::Request("stranger", test::PlainRows({{{2, 3.0f}}})));
  EXPECT_EQ(server.Metrics().find("stranger"), std::string::npos);
}

}  // namespace
}  // namespace widelane
