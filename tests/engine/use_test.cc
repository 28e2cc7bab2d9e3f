// What an engine tells of how its devices and slabs are used.

#include "widelane/engine/use.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "backends.h"
#include "batch_waiter.h"
#include "harness.h"
#include "tests/support/fake_device.h"
#include "widelane/engine/engine.h"

namespace widelane::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::steady_clock;

class UseTest : public ::testing::Test {
 protected:
  UseTest() {
    EngineOptions options;
    options.measure_costs = false;
    options.slab = {.rows = 64, .entries = 64, .results = 64};
    options.slabs = 3;
    Backends backends;
    backends.devices.push_back(FakeDevice::Cpu(cpu_));
    backends.devices.push_back(FakeDevice::Gpu(0, gpu_, 2));
    engine_ = *Engine::CreateWithDevices(options, std::move(backends));
    model_ = *engine_->Load(R4());
    loaded_batches_ = gpu_->batches();
  }

  // What a test that fails leaves blocked would hold up the engine's end.
  ~UseTest() override { gpu_->Unblock(); }

  SlabHandle Packed(uint32_t rows) {
    const std::vector<uint32_t> indices(rows, 0);
    const std::vector<uint16_t> lengths(rows, 1);
    CsrView csr;
    csr.row_lengths = TypedArray::Of(ElementType::kU16, lengths.data(), lengths.size());
    csr.indices = TypedArray::Of(ElementType::kU32, indices.data(), indices.size());
    SlabHandle slab = engine_->TakeSlab();
    slab->Open(model_, {.values = Values::kOnes});
    const Segment segment = *slab->Claim(rows, rows, kWantScores);
    RowCursor cursor(csr);
    EXPECT_TRUE(PackRows(csr, cursor, *slab, segment).ok());
    slab->Seal();
    return slab;
  }

  const std::shared_ptr<FakeDeviceControl> cpu_ = std::make_shared<FakeDeviceControl>();
  const std::shared_ptr<FakeDeviceControl> gpu_ = std::make_shared<FakeDeviceControl>();
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<const LoadedModel> model_;
  uint64_t loaded_batches_ = 0;
};

TEST_F(UseTest, BeginsWithNothingButTheWeights) {
  const EngineUse use = engine_->use();
  EXPECT_EQ(use.slabs, 3u);
  EXPECT_EQ(use.slabs_in_use, 0u);
  ASSERT_EQ(use.devices.size(), 2u);
  EXPECT_EQ(use.devices[1].lanes, 2u);
  for (const DeviceUse& device : use.devices) {
    EXPECT_EQ(device.lanes_busy, 0u);
    EXPECT_EQ(device.bytes_in, 0u);
    EXPECT_EQ(device.bytes_out, 0u);
    EXPECT_EQ(device.weight_uploads, 1u);
  }
}

TEST_F(UseTest, KnowsWhatAGpuIsAtWhileItIsAtIt) {
  gpu_->Block();
  SpinningWaiter waiter(microseconds(0));
  const auto before = engine_->use().devices[1].busy;
  engine_->Submit(Packed(5), waiter, Where::kAnywhere, Route::kCopied);
  ASSERT_TRUE(gpu_->WaitForBatches(loaded_batches_ + 1, minutes(1)));
  const auto begin = steady_clock::now();
  std::this_thread::sleep_for(milliseconds(20));
  EngineUse use = engine_->use();
  EXPECT_EQ(use.devices[1].lanes_busy, 1u);
  EXPECT_EQ(use.slabs_in_use, 1u);
  EXPECT_GE(use.devices[1].busy - before, milliseconds(19));
  gpu_->Unblock();
  SlabHandle slab = waiter.Wait();
  ASSERT_TRUE(slab->status.ok()) << slab->status;
  EXPECT_LE(slab->begun, begin);
  EXPECT_GE(slab->ended - begin, milliseconds(20));
  slab.reset();
  use = engine_->use();
  EXPECT_EQ(use.devices[1].lanes_busy, 0u);
  EXPECT_EQ(use.slabs_in_use, 0u);
  EXPECT_EQ(use.devices[1].bytes_in, 5 * kFakeRowBytesIn);
  EXPECT_EQ(use.devices[1].bytes_out, 5 * kFakeRowBytesOut);
  EXPECT_EQ(use.devices[0].bytes_in, 0u);
  EXPECT_EQ(use.devices[1].weight_uploads, 1u);
}

TEST_F(UseTest, CountsTheCpuOnEveryRoute) {
  cpu_->set_delay(milliseconds(5));
  SpinningWaiter waiter(microseconds(0));
  auto busy = engine_->use().devices[0].busy;
  for (const auto& [where, route] :
       {std::pair(Where::kAnywhere, Route::kInline), std::pair(Where::kAnywhere, Route::kPool),
        std::pair(Where::kEngineThreads, Route::kPool)}) {
    engine_->Submit(Packed(1), waiter, where, route);
    const SlabHandle slab = waiter.Wait();
    EXPECT_GE(slab->ended - slab->begun, milliseconds(5));
    const auto now = engine_->use().devices[0].busy;
    EXPECT_GE(now - busy, milliseconds(4)) << kRouteNames[static_cast<size_t>(route)];
    busy = now;
  }
  EXPECT_EQ(engine_->use().devices[0].lanes_busy, 0u);
}

}  // namespace
}  // namespace widelane::test
