#include "widelane/engine/piece_record.h"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backends.h"
#include "harness.h"
#include "tests/support/fake_device.h"

namespace widelane {
namespace {

using test::BatchWaiter;
using test::FakeDevice;
using test::FakeDeviceControl;

class Records : public PieceObserver {
 public:
  void OnPiece(const PieceRecord& piece) override {
    const std::lock_guard lock(mutex_);
    records_.push_back(piece);
  }
  std::vector<PieceRecord> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(records_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<PieceRecord> records_;
};

// Two fake GPUs of two lanes each.
class PieceRecords : public ::testing::Test {
 protected:
  PieceRecords() {
    EngineOptions options;
    options.slab = {.rows = 4096, .entries = 1 << 16, .results = 1 << 14};
    options.measure_costs = false;
    Backends backends;
    backends.devices.push_back(FakeDevice::Cpu(cpu_));
    for (int i = 0; i < 2; ++i) backends.devices.push_back(FakeDevice::Gpu(i, gpu_));
    engine_ = *Engine::CreateWithDevices(options, std::move(backends));
    model_ = *engine_->Load(test::R4());
  }

  // Scores rows of two entries each.
  std::vector<PieceRecord> Score(Route route, size_t rows, bool observed = true) {
    const std::vector<test::Row> all(rows, {{0, 2}, {1.0F, 3.0F}});
    const test::CsrArrays arrays(all, true);
    const CsrView view = arrays.view();
    SlabHandle slab = engine_->TakeSlab();
    slab->Open(model_, {.values = Values::kFloat32});
    RowCursor cursor(view);
    EXPECT_TRUE(PackRows(view, cursor, *slab, *slab->Claim(rows, 2 * rows, kWantScores)).ok());
    if (observed) {
      slab->observer = &records_;
      slab->tag = 7;
    }
    slab->Seal();
    BatchWaiter waiter;
    engine_->Submit(std::move(slab), waiter, Where::kAnywhere, route);
    waiter.Wait();
    return records_.Take();
  }

  static void ExpectInOrder(const PieceRecord& piece) {
    EXPECT_LE(piece.submitted, piece.begun);
    EXPECT_LE(piece.begun, piece.launched);
    EXPECT_LE(piece.launched, piece.done);
    for (size_t i = 0; i < piece.span_count; ++i) {
      EXPECT_LE(piece.begun, piece.spans[i].begin);
      EXPECT_LE(piece.spans[i].begin, piece.spans[i].end);
      EXPECT_LE(piece.spans[i].end, piece.done);
    }
  }

  const std::shared_ptr<FakeDeviceControl> cpu_ = std::make_shared<FakeDeviceControl>();
  const std::shared_ptr<FakeDeviceControl> gpu_ = std::make_shared<FakeDeviceControl>();
  Records records_;  // goes after the engine
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<const LoadedModel> model_;
};

TEST_F(PieceRecords, TellOfAGpusLane) {
  const std::vector<PieceRecord> pieces = Score(Route::kCopied, 10);
  ASSERT_EQ(pieces.size(), 1U);
  const PieceRecord& piece = pieces[0];
  EXPECT_EQ(piece.tag, 7U);
  EXPECT_GE(piece.device, 1U);
  EXPECT_GE(piece.lane, 0);
  EXPECT_LT(piece.lane, 2);
  EXPECT_EQ(piece.route, Route::kCopied);
  EXPECT_EQ(piece.rows, 10U);
  EXPECT_EQ(piece.entries, 20U);
  ASSERT_EQ(piece.span_count, 2U);
  EXPECT_EQ(piece.spans[0].stage, Stage::kTransferIn);
  EXPECT_EQ(piece.spans[1].stage, Stage::kCompute);
  ExpectInOrder(piece);
}

TEST_F(PieceRecords, TellOfEachPartOfABatchThatIsCut) {
  const std::vector<PieceRecord> pieces = Score(Route::kAllGpus, 1000);
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_NE(pieces[0].device, pieces[1].device);
  EXPECT_EQ(pieces[0].rows + pieces[1].rows, 1000U);
  EXPECT_EQ(pieces[0].entries + pieces[1].entries, 2000U);
}

TEST_F(PieceRecords, TellOfTheCpu) {
  for (const Route route : {Route::kInline, Route::kPool}) {
    const std::vector<PieceRecord> pieces = Score(route, 10);
    ASSERT_EQ(pieces.size(), 1U);
    EXPECT_EQ(pieces[0].device, 0U);
    EXPECT_EQ(pieces[0].lane, PieceRecord::kThread);
    EXPECT_EQ(pieces[0].rows, 10U);
    EXPECT_EQ(pieces[0].entries, 20U);
    ExpectInOrder(pieces[0]);
  }
}

TEST_F(PieceRecords, TellWhoScoredWhenAGpuFailed) {
  gpu_->set_failure(absl::InternalError("the fake GPU fell off the bus"));
  const std::vector<PieceRecord> pieces = Score(Route::kCopied, 10);
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces[0].device, 0U);
  ExpectInOrder(pieces[0]);
}

TEST_F(PieceRecords, AreNotMadeWhenNobodyAsks) {
  EXPECT_TRUE(Score(Route::kCopied, 10, /*observed=*/false).empty());
  EXPECT_EQ(Score(Route::kCopied, 10).size(), 1U);
  EXPECT_TRUE(Score(Route::kCopied, 10, /*observed=*/false).empty());
}

TEST(PieceRecord, LeavesOutWhatIsTooMuch) {
  PieceRecord piece;
  for (size_t i = 0; i < PieceRecord::kMostSpans + 5; ++i) piece.Add({});
  EXPECT_EQ(piece.span_count, PieceRecord::kMostSpans);
}

}  // namespace
}  // namespace widelane
