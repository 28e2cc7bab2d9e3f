#include "probe.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "backend.h"
#include "backends.h"
#include "cpu/cpu_device.h"
#include "harness.h"
#include "tests/support/fake_device.h"
#include "tests/support/reference.h"

namespace widelane {
namespace {

using test::FakeDevice;
using test::FakeDeviceControl;

// The most outputs a model may have. Models are tried with work that grows with them and with entries.
constexpr uint32_t kResults = (1 << 14) / test::kShrink / test::kShrink;

// The real CPU and one GPU.
std::unique_ptr<Engine> MakeEngine(std::unique_ptr<Device> gpu) {
  EngineOptions options;
  options.slab = {.rows = 4096, .entries = (1 << 16) / test::kShrink / test::kShrink, .results = kResults};
  options.cpu_threads = 2;
  options.measure_costs = false;
  Backends backends;
  backends.pool = std::make_shared<ThreadPool>(1, std::chrono::microseconds(0));
  backends.devices.push_back(*MakeCpuDevice(options, backends.pool));
  backends.devices.push_back(std::move(gpu));
  return *Engine::CreateWithDevices(options, std::move(backends));
}

// A device whose last result of each batch, or of each with contexts, is off by the least there is.
class LyingDevice : public Device {
 public:
  LyingDevice(std::unique_ptr<Device> honest, bool with_contexts_only)
      : honest_(std::move(honest)), with_contexts_only_(with_contexts_only) {}
  const DeviceInfo& info() const override { return honest_->info(); }
  size_t lanes() const override { return honest_->lanes(); }
  absl::StatusOr<std::unique_ptr<ResidentModel>> Load(const Model& model) override { return honest_->Load(model); }
  absl::StatusOr<std::unique_ptr<Lane>> MakeLane() override {
    return std::make_unique<LyingLane>(*honest_->MakeLane(), with_contexts_only_);
  }

 private:
  class LyingLane : public Lane {
   public:
    LyingLane(std::unique_ptr<Lane> honest, bool with_contexts_only)
        : honest_(std::move(honest)), with_contexts_only_(with_contexts_only) {}
    absl::Status Start(const LaneWork& work) override {
      work_ = work;
      return honest_->Start(work);
    }
    absl::Status Finish(StageTimes& stages) override {
      absl::Status status = honest_->Finish(stages);
      if (with_contexts_only_ && work_.batch->context_line == nullptr) return status;
      double& last = work_.batch->raw[uint64_t{work_.first_row + work_.rows} * work_.model->outputs() - 1];
      last = std::nextafter(last, HUGE_VAL);
      return status;
    }

   private:
    LaneWork work_;
    const std::unique_ptr<Lane> honest_;
    const bool with_contexts_only_;
  };

  const std::unique_ptr<Device> honest_;
  const bool with_contexts_only_;
};

TEST(Probe, FindsADeviceThatIsOffByOneBit) {
  for (const bool with_contexts_only : {false, true}) {
    const auto engine = MakeEngine(
        std::make_unique<LyingDevice>(FakeDevice::Gpu(0, std::make_shared<FakeDeviceControl>()), with_contexts_only));
    const auto loaded = engine->Load(test::R4());
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInternal) << loaded.status();
    EXPECT_TRUE(absl::StrContains(loaded.status().message(), "GPU-fake-0")) << loaded.status();
    EXPECT_EQ(absl::StrContains(loaded.status().message(), "contexts"), with_contexts_only) << loaded.status();
  }
}

TEST(Probe, FitsModelsOfEveryShape) {
  const auto engine = MakeEngine(FakeDevice::Gpu(0, std::make_shared<FakeDeviceControl>()));
  test::Random random(4);
  for (const uint32_t outputs : {1U, 3U, kResults}) {
    for (const uint64_t features : {1, 100}) {
      const auto loaded = engine->Load(test::RandomModel({.features = features, .outputs = outputs}, random));
      EXPECT_TRUE(loaded.ok()) << loaded.status();
    }
  }
  ModelParts none;
  none.weights = *ModelParts::AllocateWeights(0, 1, WeightType::kFloat32);
  EXPECT_TRUE(engine->Load(*Model::Create(std::move(none))).ok());
}

}  // namespace
}  // namespace widelane
