// A warm engine scores batches without allocating: packing, submitting, scoring and handing back.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "batch_waiter.h"
#include "harness.h"
#include "widelane/engine/engine.h"

// The sanitizers bring their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};

void* CountAndAllocate(size_t bytes) {
  if (counting) ++allocations;
  void* const data = std::malloc(bytes == 0 ? 1 : bytes);
  if (data == nullptr) std::abort();
  return data;
}

}  // namespace

void* operator new(size_t bytes) { return CountAndAllocate(bytes); }
void* operator new[](size_t bytes) { return CountAndAllocate(bytes); }
void operator delete(void* data) noexcept { std::free(data); }
void operator delete[](void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }
void operator delete[](void* data, size_t) noexcept { std::free(data); }

namespace widelane {
namespace {

class NoAllocation : public ::testing::TestWithParam<Route> {};

INSTANTIATE_TEST_SUITE_P(Routes, NoAllocation,
                         ::testing::Values(Route::kInline, Route::kPool, Route::kMapped, Route::kCopied,
                                           Route::kAllGpus),
                         [](const auto& of) { return kRouteNames[static_cast<size_t>(of.param)]; });

TEST_P(NoAllocation, OnAWarmPath) {
  EngineOptions options;
  const bool on_gpu = GetParam() >= Route::kMapped;
  options.devices.kind = on_gpu ? DeviceSelection::Kind::kGpu : DeviceSelection::Kind::kCpu;
  options.slab = {.rows = 4096, .entries = 1 << 17, .results = 1 << 15};
  options.slabs = 2;
  options.cpu_threads = 2;
  options.route = GetParam();
  auto engine = Engine::Create(options);
  if (!engine.ok() && on_gpu && absl::IsFailedPrecondition(engine.status())) GTEST_SKIP() << engine.status();
  ASSERT_TRUE(engine.ok()) << engine.status();
  test::Random random(7);
  for (const uint32_t outputs : {1U, 40U}) {
    const auto model = *(*engine)->Load(test::RandomModel({.features = 5000, .outputs = outputs}, random));
    const auto rows = test::RandomRows(700, {.features = 5000}, random);
    const test::CsrArrays arrays(rows, true);
    const CsrView view = arrays.view();
    for (const uint32_t best : {0U, outputs / 4}) {
      for (int round = 0; round < 20; ++round) {
        counting = round >= 10;
        SpinningWaiter waiter(std::chrono::microseconds(0));
        SlabHandle slab = (*engine)->TakeSlab();
        slab->Open(model, {.values = Values::kFloat32, .best = best});
        RowCursor cursor(view);
        const Segment segment = *slab->Claim(rows.size(), view.indices.count, kWantScores);
        const bool packed = PackRows(view, cursor, *slab, segment).ok();
        slab->Seal();
        (*engine)->Submit(std::move(slab), waiter, round % 2 == 0 ? Where::kAnywhere : Where::kEngineThreads);
        const bool scored = waiter.Wait()->status.ok();
        counting = false;
        ASSERT_TRUE(packed && scored);
      }
    }
  }
  EXPECT_EQ(allocations.exchange(0), 0);
}

}  // namespace
}  // namespace widelane

#endif
