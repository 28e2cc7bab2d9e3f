#include "server/observe/gpu_telemetry.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tests/support/captured_log.h"
#include "tests/support/expect.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_nvml_library.h"

namespace widelane {
namespace {

constexpr char kFirstGpu[] = "GPU-00000000-0000-0000-0000-000000000001";
constexpr char kSecondGpu[] = "GPU-00000000-0000-0000-0000-000000000002";
constexpr int kNotSupported = 3;
constexpr int kUnknownError = 999;

class GpuTelemetryTest : public ::testing::Test {
 protected:
  ~GpuTelemetryTest() override {
    nvml_.Set(&FakeNvml::hang, 0);
    telemetry_.reset();
    // A thread that was left behind in the library is out of it before the library and the clock go.
    EXPECT_TRUE(Becomes([this] { return nvml_.Get(&FakeNvml::opened) == 0; }));
  }

  void Start(const std::vector<std::string>& gpus) {
    telemetry_ = std::make_unique<GpuTelemetry>(gpus, options_, clock_);
  }

  // "name{device,other label}" of every sample.
  std::map<std::string, double> Read() {
    std::map<std::string, double> samples;
    for (const auto& family : telemetry_->Collect()) {
      for (const auto& metric : family.metric) {
        std::string name = family.name.substr(std::string("widelane_gpu_").size());
        for (const auto& label : metric.label) name += " " + label.value;
        samples[name] = metric.gauge.value;
      }
    }
    return samples;
  }
  std::optional<double> Value(const std::string& name, const std::string& device = kFirstGpu) {
    const auto samples = Read();
    const auto found = samples.find(name + " " + device);
    if (found == samples.end()) return {};
    return found->second;
  }

  template <typename Condition>
  static bool Becomes(const Condition& condition) {
    return test::Eventually(condition, test::kPatience);
  }
  bool BecomesUp(bool up, const std::string& device = kFirstGpu) {
    return Becomes([&] { return Value("telemetry_up", device) == (up ? 1.0 : 0.0); });
  }

  test::CapturedLog log_;
  test::FakeClock clock_;
  test::FakeNvmlLibrary nvml_{{kFirstGpu, kSecondGpu}};
  GpuTelemetryOptions options_{.library = nvml_.path()};
  std::unique_ptr<GpuTelemetry> telemetry_;
};

TEST_F(GpuTelemetryTest, ReadsWhatTheLibraryTellsInBaseUnits) {
  nvml_.Set(&FakeNvml::utilization_percent, 42);
  Start({kFirstGpu});
  ASSERT_TRUE(Becomes([this] { return Read().size() == 10; }));
  const std::string gpu = kFirstGpu;
  const std::map<std::string, double> expected = {
      {"telemetry_up " + gpu, 1},
      {"utilization_ratio " + gpu, 0.42},
      {"memory_used_bytes " + gpu, 30e9},
      {"memory_bytes " + gpu, 80e9},
      {"power_watts " + gpu, 123.456},
      {"temperature_celsius " + gpu, 45},
      {"clock_hertz " + gpu + " sm", 1980e6},
      {"clock_hertz " + gpu + " memory", 2619e6},
      {"pcie_bytes_per_second " + gpu + " in", 2e6},
      {"pcie_bytes_per_second " + gpu + " out", 1e6},
  };
  const auto samples = Read();
  EXPECT_EQ(samples, expected);
  EXPECT_TRUE(log_.lines().empty());
}

TEST_F(GpuTelemetryTest, ReadsAnewEachPeriod) {
  Start({kFirstGpu});
  ASSERT_TRUE(BecomesUp(true));
  EXPECT_EQ(Value("utilization_ratio"), 0.0);
  nvml_.Set(&FakeNvml::utilization_percent, 7);
  clock_.Advance(options_.period);
  EXPECT_TRUE(Becomes([this] { return Value("utilization_ratio") == 0.07; }));
}

TEST_F(GpuTelemetryTest, AMissingLibraryIsToldOnce) {
  options_.library = nvml_.path() + ".missing";
  Start({kFirstGpu, kSecondGpu});
  ASSERT_TRUE(BecomesUp(false));
  for (int i = 0; i < 3; ++i) clock_.Advance(options_.retry);
  EXPECT_EQ(Read().size(), 2u);
  telemetry_.reset();
  ASSERT_EQ(log_.lines().size(), 1u);
  EXPECT_EQ(log_.Count("warning no telemetry of GPUs"), 1);
  EXPECT_EQ(log_.Count(".missing"), 1);
}

TEST_F(GpuTelemetryTest, AnInitThatFailsIsTriedAgain) {
  nvml_.Set(&FakeNvml::init_code, kUnknownError);
  Start({kFirstGpu});
  ASSERT_TRUE(BecomesUp(false));
  EXPECT_EQ(Read().size(), 1u);
  nvml_.Set(&FakeNvml::init_code, 0);
  clock_.Advance(options_.retry);
  EXPECT_TRUE(BecomesUp(true));
  EXPECT_EQ(log_.Count("nvmlInit: Unknown Error (999)"), 1);
  EXPECT_TRUE(Becomes([this] { return log_.Count("info telemetry of all GPUs is there") == 1; }));
}

TEST_F(GpuTelemetryTest, IsLostAndComesBack) {
  Start({kFirstGpu});
  ASSERT_TRUE(BecomesUp(true));
  nvml_.SetGpuCode(0, kUnknownError);
  for (int i = 0; i < 3; ++i) clock_.Advance(options_.period);
  ASSERT_TRUE(BecomesUp(false));
  EXPECT_EQ(Read().size(), 1u);
  nvml_.SetGpuCode(0, 0);
  clock_.Advance(options_.retry);
  EXPECT_TRUE(BecomesUp(true));
  EXPECT_TRUE(Value("power_watts").has_value());
  EXPECT_EQ(log_.Count("no telemetry"), 1);
  EXPECT_TRUE(Becomes([this] { return log_.Count("is there") == 1; }));
}

TEST_F(GpuTelemetryTest, WhatIsNotSupportedIsAbsent) {
  nvml_.Set(&FakeNvml::utilization_code, kNotSupported);
  nvml_.Set(&FakeNvml::traffic_code, kNotSupported);
  Start({kFirstGpu});
  ASSERT_TRUE(BecomesUp(true));
  EXPECT_EQ(Read().size(), 7u);
  EXPECT_FALSE(Value("utilization_ratio").has_value());
  EXPECT_TRUE(log_.lines().empty());
}

TEST_F(GpuTelemetryTest, OneOfTwoGpusMayFail) {
  nvml_.SetGpuCode(1, kUnknownError);
  Start({kFirstGpu, kSecondGpu});
  ASSERT_TRUE(BecomesUp(true, kFirstGpu));
  EXPECT_TRUE(BecomesUp(false, kSecondGpu));
  EXPECT_TRUE(Value("temperature_celsius", kFirstGpu).has_value());
  EXPECT_FALSE(Value("temperature_celsius", kSecondGpu).has_value());
  EXPECT_TRUE(Becomes([this] { return log_.Count(kSecondGpu) == 1; }));
  EXPECT_EQ(log_.Count(kFirstGpu), 0);
}

TEST_F(GpuTelemetryTest, OnlyGpusThatAreUsedAreShown) {
  Start({kSecondGpu});
  ASSERT_TRUE(BecomesUp(true, kSecondGpu));
  for (const auto& [name, value] : Read()) EXPECT_NE(name.find(kSecondGpu), std::string::npos) << name;
}

// CUDA's UUID of an instance has no "MIG-" before it.
TEST_F(GpuTelemetryTest, FindsMigInstances) {
  const std::string id = "00000000-0000-0000-0000-000000000003";
  telemetry_.reset();
  test::FakeNvmlLibrary nvml({"MIG-" + id});
  Start({"GPU-" + id});
  EXPECT_TRUE(BecomesUp(true, "GPU-" + id));
}

TEST_F(GpuTelemetryTest, ACallThatHangsHoldsUpNobody) {
  options_.patience = std::chrono::milliseconds(10);
  Start({kFirstGpu});
  ASSERT_TRUE(BecomesUp(true));
  nvml_.Set(&FakeNvml::hang, 1);
  const int calls = nvml_.Get(&FakeNvml::calls);
  clock_.Advance(options_.period);
  ASSERT_TRUE(Becomes([&] { return nvml_.Get(&FakeNvml::calls) > calls; }));
  EXPECT_EQ(Value("telemetry_up"), 1.0);
  clock_.Advance(options_.stale);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Value("telemetry_up"), 0.0);
    EXPECT_EQ(Read().size(), 1u);
  }
  EXPECT_EQ(log_.Count("NVML does not answer"), 1);
  telemetry_.reset();
}

TEST_F(GpuTelemetryTest, ComesBackAfterACallThatHung) {
  Start({kFirstGpu});
  ASSERT_TRUE(BecomesUp(true));
  nvml_.Set(&FakeNvml::hang, 1);
  const int calls = nvml_.Get(&FakeNvml::calls);
  clock_.Advance(options_.period);
  ASSERT_TRUE(Becomes([&] { return nvml_.Get(&FakeNvml::calls) > calls; }));
  clock_.Advance(2 * options_.stale);
  EXPECT_EQ(Value("telemetry_up"), 0.0);
  nvml_.Set(&FakeNvml::hang, 0);
  EXPECT_TRUE(BecomesUp(true));
  EXPECT_TRUE(Becomes([this] { return log_.Count("is there") == 1; }));
}

TEST_F(GpuTelemetryTest, AHangAtTheStartIsShown) {
  options_.patience = std::chrono::milliseconds(10);
  nvml_.Set(&FakeNvml::hang, 1);
  Start({kFirstGpu});
  ASSERT_TRUE(Becomes([this] { return nvml_.Get(&FakeNvml::calls) > 0; }));
  EXPECT_TRUE(Read().empty());
  clock_.Advance(2 * options_.stale);
  EXPECT_EQ(Value("telemetry_up"), 0.0);
  EXPECT_EQ(log_.Count("NVML does not answer"), 1);
}

}  // namespace
}  // namespace widelane
