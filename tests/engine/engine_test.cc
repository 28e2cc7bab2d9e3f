#include "widelane/engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backend.h"
#include "backends.h"
#include "cpu/cpu_device.h"
#include "harness.h"
#include "tests/support/fake_device.h"
#include "tests/support/reference.h"

namespace widelane {
namespace {

using std::chrono::milliseconds;
using test::BatchWaiter;
using test::FakeDevice;
using test::FakeDeviceControl;
using test::Row;
using test::ScoreBatch;

constexpr milliseconds kPatience(20'000);

EngineOptions Options() {
  EngineOptions options;
  options.devices.kind = DeviceSelection::Kind::kGpu;
  options.slab = {.rows = 4096, .entries = 1 << 14, .results = 1 << 14};  // models are tried on GPUs with half of it
  options.slabs = 8;
  options.cpu_threads = 2;
  options.measure_costs = false;
  return options;
}

// The real CPU, and as many fake GPUs as there are controls.
std::unique_ptr<Engine> MakeEngine(const EngineOptions& options,
                                   const std::vector<std::shared_ptr<FakeDeviceControl>>& gpus) {
  Backends backends;
  backends.pool = std::make_shared<ThreadPool>(options.cpu_threads - 1, std::chrono::microseconds(0));
  backends.devices.push_back(*MakeCpuDevice(options, backends.pool));
  for (size_t i = 0; i < gpus.size(); ++i) backends.devices.push_back(FakeDevice::Gpu(static_cast<int>(i), gpus[i]));
  auto engine = Engine::CreateWithDevices(options, std::move(backends));
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

std::unique_ptr<Engine> CpuEngine(Route route = Route::kAuto) {
  EngineOptions options = Options();
  options.devices.kind = DeviceSelection::Kind::kCpu;
  options.route = route;
  return *Engine::Create(options);
}

void Fill(Slab& slab, const std::shared_ptr<const LoadedModel>& model, const std::vector<Row>& rows) {
  const test::CsrArrays arrays(rows, true);
  const CsrView view = arrays.view();
  slab.Open(model, {.values = Values::kFloat32});
  RowCursor cursor(view);
  EXPECT_TRUE(PackRows(view, cursor, slab, *slab.Claim(rows.size(), view.indices.count, kWantScores | kWantRaw)).ok());
  slab.Seal();
}

// A sealed batch of `rows`.
SlabHandle Batch(Engine& engine, const std::shared_ptr<const LoadedModel>& model, const std::vector<Row>& rows) {
  SlabHandle slab = engine.TakeSlab();
  EXPECT_NE(slab, nullptr);
  Fill(*slab, model, rows);
  return slab;
}

const std::vector<Row>& OneRow() {
  static const std::vector<Row> rows = {{{2}, {3.0F}}};
  return rows;
}

// Calls a function with each finished batch.
class Calling : public BatchListener {
 public:
  explicit Calling(std::function<void(SlabHandle)> function) : function_(std::move(function)) {}
  void OnBatchDone(SlabHandle slab) override { function_(std::move(slab)); }

 private:
  const std::function<void(SlabHandle)> function_;
};

class FakeGpus : public ::testing::Test {
 protected:
  void Start(size_t gpus, EngineOptions options = Options()) {
    for (size_t i = 0; i < gpus; ++i) controls_.push_back(std::make_shared<FakeDeviceControl>());
    engine_ = MakeEngine(options, controls_);
    test::Random random(41);
    model_ = *engine_->Load(test::RandomModel({.features = 100, .outputs = 3, .link = Link::kSoftmax}, random));
    rows_ = test::RandomRows(300, {.features = 100}, random);
    expected_ = test::ReferenceScores(model_->model(), rows_);
  }

  // Whether a batch of so many rows of 40 entries would start at once.
  bool Starts(uint64_t rows, Where where = Where::kAnywhere) const {
    return engine_->StartsAtOnce(*model_, {.values = Values::kFloat32}, rows, 40 * rows, where);
  }
  // The same, once what a GPU is about to end has ended.
  bool StartsSoon(uint64_t rows) const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!Starts(rows) && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return Starts(rows);
  }

  std::vector<std::shared_ptr<FakeDeviceControl>> controls_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<const LoadedModel> model_;
  std::vector<Row> rows_;
  std::vector<test::RowScore> expected_;
};

TEST_F(FakeGpus, ScoreWhatTheCpuWould) {
  Start(1);
  EXPECT_TRUE(engine_->uses_gpus());
  EXPECT_EQ(engine_->devices().size(), 2U);
  const uint64_t before = controls_[0]->batches();
  const auto scores = ScoreBatch(*engine_, model_, rows_, true);
  ASSERT_TRUE(scores.ok()) << scores.status();
  test::ExpectSameBits(expected_, *scores);
  EXPECT_EQ(controls_[0]->batches(), before + 1);
  EXPECT_EQ(engine_->device_failures(), 0U);
}

TEST_F(FakeGpus, AFailingOneIsReplacedByTheCpuWithTheSameBits) {
  Start(1);
  controls_[0]->set_failure(absl::InternalError("fell off the bus"));
  for (int round = 0; round < 3; ++round) {
    const auto scores = ScoreBatch(*engine_, model_, rows_, true);
    ASSERT_TRUE(scores.ok()) << scores.status();
    test::ExpectSameBits(expected_, *scores);
  }
  EXPECT_GE(engine_->device_failures(), 1U);

  BatchWaiter waiter;
  engine_->Submit(Batch(*engine_, model_, rows_), waiter, Where::kEngineThreads);
  const SlabHandle slab = waiter.Wait();
  ASSERT_NE(slab, nullptr);
  EXPECT_EQ(slab->device, 0) << "the batch says who scored it";
}

TEST_F(FakeGpus, OneOfTwoMayFail) {
  EngineOptions options = Options();
  options.route = Route::kAllGpus;
  Start(2, options);
  controls_[1]->set_failure(absl::InternalError("fell off the bus"));
  for (int round = 0; round < 20; ++round) {
    const auto scores = ScoreBatch(*engine_, model_, rows_, true);
    ASSERT_TRUE(scores.ok()) << scores.status();
    test::ExpectSameBits(expected_, *scores);
  }
  // The failed one is left alone, and the other does all the work.
  const uint64_t failed = controls_[1]->batches();
  const uint64_t healthy = controls_[0]->rows();
  const uint64_t failures = engine_->device_failures();
  EXPECT_GE(failures, 1U);
  for (int round = 0; round < 5; ++round) ASSERT_TRUE(ScoreBatch(*engine_, model_, rows_, true).ok());
  EXPECT_EQ(controls_[1]->batches(), failed);
  EXPECT_EQ(controls_[0]->rows(), healthy + 5 * rows_.size());
  EXPECT_EQ(engine_->device_failures(), failures);
}

TEST_F(FakeGpus, ModelsAreLoadedAlsoAfterOneHasFailed) {
  Start(1);
  controls_[0]->set_failure(absl::InternalError("fell off the bus"));
  ASSERT_TRUE(ScoreBatch(*engine_, model_, rows_, true).ok());
  ASSERT_GE(engine_->device_failures(), 1U);
  test::Random random(41);  // as in Start
  const auto again = engine_->Load(test::RandomModel({.features = 100, .outputs = 3, .link = Link::kSoftmax}, random));
  ASSERT_TRUE(again.ok()) << again.status();
  const auto scores = ScoreBatch(*engine_, *again, rows_, true);
  ASSERT_TRUE(scores.ok()) << scores.status();
  test::ExpectSameBits(expected_, *scores);
}

TEST_F(FakeGpus, ShareALargeBatchByRows) {
  EngineOptions options = Options();
  options.route = Route::kAllGpus;
  Start(2, options);
  const uint64_t rows = controls_[0]->rows() + controls_[1]->rows();
  const uint64_t batches = controls_[0]->batches() + controls_[1]->batches();
  const auto scores = ScoreBatch(*engine_, model_, rows_, true);
  ASSERT_TRUE(scores.ok()) << scores.status();
  test::ExpectSameBits(expected_, *scores);
  EXPECT_EQ(controls_[0]->rows() + controls_[1]->rows(), rows + rows_.size()) << "each row once";
  EXPECT_GT(controls_[0]->batches() + controls_[1]->batches(), batches + 1);
}

TEST_F(FakeGpus, GetABatchOfEmptyRowsInPiecesToo) {
  EngineOptions options = Options();
  options.route = Route::kAllGpus;
  Start(2, options);
  const std::vector<Row> empty(1000);
  const uint64_t before = controls_[0]->batches() + controls_[1]->batches();
  const auto scores = ScoreBatch(*engine_, model_, empty, true);
  ASSERT_TRUE(scores.ok()) << scores.status();
  test::ExpectSameBits(test::ReferenceScores(model_->model(), empty), *scores);
  EXPECT_GT(controls_[0]->batches() + controls_[1]->batches(), before + 1);
}

TEST_F(FakeGpus, SmallBatchesStayOnTheCpuWhereTheEngineMayChoose) {
  EngineOptions options = Options();
  options.devices.kind = DeviceSelection::Kind::kAuto;
  options.slab.entries = 1 << 16;
  Start(1, options);
  const uint64_t before = controls_[0]->batches();
  ASSERT_TRUE(ScoreBatch(*engine_, model_, {rows_[0]}, true).ok());
  EXPECT_EQ(controls_[0]->batches(), before);
  const std::vector<Row> many(1500, rows_[0]);
  ASSERT_TRUE(ScoreBatch(*engine_, model_, many, true).ok());
  EXPECT_EQ(controls_[0]->batches(), before + 1);
}

TEST_F(FakeGpus, StartBatchesAtOnceUntilEachLaneHasOne) {
  for (const Route route : {Route::kAuto, Route::kMapped, Route::kCopied}) {
    EngineOptions options = Options();
    options.route = route;
    controls_.clear();
    Start(1, options);
    EXPECT_TRUE(Starts(300));
    const uint64_t before = controls_[0]->batches();
    controls_[0]->Block();
    BatchWaiter first;
    BatchWaiter second;
    engine_->Submit(Batch(*engine_, model_, rows_), first, Where::kAnywhere);
    EXPECT_TRUE(Starts(300)) << "there are two lanes";
    engine_->Submit(Batch(*engine_, model_, rows_), second, Where::kAnywhere);
    EXPECT_TRUE(controls_[0]->WaitForBatches(before + 2, kPatience));
    EXPECT_FALSE(Starts(300));
    EXPECT_FALSE(Starts(1)) << "the CPU is for GPUs that fail";
    controls_[0]->Unblock();
    ASSERT_NE(first.Wait(), nullptr);
    ASSERT_NE(second.Wait(), nullptr);
    EXPECT_TRUE(Starts(300));
  }
}

TEST_F(FakeGpus, StartABatchForAllOfThemOnceOneHasAFreeLane) {
  EngineOptions options = Options();
  options.route = Route::kAllGpus;
  Start(2, options);
  EXPECT_TRUE(Starts(2000));
  const uint64_t before[] = {controls_[0]->batches(), controls_[1]->batches()};
  for (const auto& control : controls_) control->Block();
  BatchWaiter waiters[2];
  for (BatchWaiter& waiter : waiters) engine_->Submit(Batch(*engine_, model_, rows_), waiter, Where::kAnywhere);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(controls_[i]->WaitForBatches(before[i] + 2, kPatience));
  EXPECT_FALSE(Starts(2000)) << "each has two batches on two lanes";
  controls_[0]->Unblock();
  EXPECT_TRUE(StartsSoon(2000)) << "the other still has two";
  controls_[1]->Unblock();
  for (BatchWaiter& waiter : waiters) ASSERT_NE(waiter.Wait(), nullptr);
  EXPECT_TRUE(Starts(2000));
}

// Where the engine may choose, small batches go to the CPU, and its threads decide for them alone.
TEST_F(FakeGpus, DoNotHoldUpBatchesThatTheCallerScores) {
  EngineOptions options = Options();
  options.devices.kind = DeviceSelection::Kind::kAuto;
  Start(1, options);
  const uint64_t before = controls_[0]->batches();
  controls_[0]->Block();
  BatchWaiter waiters[2];
  for (BatchWaiter& waiter : waiters) {
    engine_->Submit(Batch(*engine_, model_, rows_), waiter, Where::kAnywhere, Route::kCopied);
  }
  EXPECT_TRUE(controls_[0]->WaitForBatches(before + 2, kPatience));
  EXPECT_TRUE(Starts(1));
  EXPECT_TRUE(Starts(1, Where::kEngineThreads)) << "the pool is idle";
  EXPECT_TRUE(engine_->IsFirstHere(*model_, {.values = Values::kFloat32}, 1, 40));
  EXPECT_FALSE(engine_->IsFirstHere(*model_, {.values = Values::kFloat32}, 100'000, 4'000'000));
  controls_[0]->Unblock();
  for (BatchWaiter& waiter : waiters) ASSERT_NE(waiter.Wait(), nullptr);
}

TEST_F(FakeGpus, AreIdleAgainWhenTheListenerIsTold) {
  EngineOptions options = Options();
  Start(1, options);
  std::atomic<int> idle{0};
  std::atomic<int> calls{0};
  Calling listener([&](SlabHandle slab) {
    slab.reset();
    idle += Starts(1) ? 1 : 0;
    ++calls;
  });
  for (int round = 0; round < 50; ++round) {
    engine_->Submit(Batch(*engine_, model_, OneRow()), listener, Where::kEngineThreads);
    while (calls != round + 1) std::this_thread::yield();
  }
  EXPECT_EQ(idle, 50);
}

TEST_F(FakeGpus, RefuseModelsTheyCannotHold) {
  Start(2);
  controls_[1]->set_load_failure(absl::ResourceExhaustedError("GPU-fake-1: 8 bytes are free, 12 are needed"));
  const auto loaded = engine_->Load(test::R4());
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(loaded.status().message(), "12 are needed")) << loaded.status();
}

TEST_F(FakeGpus, FailTheLoadWhenTheProbeFails) {
  Start(1);
  controls_[0]->set_failure(absl::InternalError("no kernel image"));
  const auto loaded = engine_->Load(test::R4());
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::StrContains(loaded.status().message(), "GPU-fake-0")) << loaded.status();
  EXPECT_TRUE(absl::StrContains(loaded.status().message(), "no kernel image")) << loaded.status();
}

TEST(Engine, LendsEachSlabOnceAndTakesItBack) {
  const auto engine = CpuEngine();
  auto model = *engine->Load(test::R4());
  std::vector<SlabHandle> taken;
  for (size_t i = 0; i < Options().slabs; ++i) {
    taken.push_back(engine->TakeSlab());
    ASSERT_NE(taken.back(), nullptr);
    taken.back()->Open(model, {});
  }
  EXPECT_EQ(engine->TakeSlab(), nullptr);
  taken.pop_back();
  EXPECT_NE(engine->TakeSlab(), nullptr);
  taken.clear();
  EXPECT_EQ(model.use_count(), 1) << "slabs that are back keep no model alive";
}

TEST(Engine, DropsAModelWithItsLastHolder) {
  const auto engine = CpuEngine();
  std::shared_ptr<const Model> model = test::R4();
  auto loaded = *engine->Load(model);
  EXPECT_GT(model.use_count(), 1);
  BatchWaiter waiter;
  engine->Submit(Batch(*engine, loaded, OneRow()), waiter, Where::kEngineThreads);
  loaded.reset();
  SlabHandle slab = waiter.Wait();
  ASSERT_NE(slab, nullptr);
  EXPECT_NEAR(slab->scores(0)[0], 0.994779874, 1e-7) << "the batch kept the model";
  slab.reset();
  EXPECT_EQ(model.use_count(), 1);
}

TEST(Engine, TellsTheListenerExactlyOnceFromManyThreads) {
  for (const Route route : {Route::kPool, Route::kAuto}) {
    const auto engine = CpuEngine(route);
    const auto model = *engine->Load(test::MakeModel(1, {1.0F}, {}, Link::kIdentity));
    std::atomic<int> right{0};
    std::atomic<int> calls{0};
    constexpr int kThreads = 4;
    constexpr int kRounds = 400 / test::kShrink;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int round = 0; round < kRounds; ++round) {
          SlabHandle slab = engine->TakeSlab();
          if (slab == nullptr) {
            --round;
            std::this_thread::yield();
            continue;
          }
          slab->Open(model, {.values = Values::kFloat32});
          const auto number = static_cast<float>(t * kRounds + round);
          const std::vector<Row> rows = {{{0}, {number}}, {{0, 0}, {number, 1.0F}}};
          const test::CsrArrays arrays(rows, true);
          const CsrView view = arrays.view();
          RowCursor cursor(view);
          ASSERT_TRUE(PackRows(view, cursor, *slab, *slab->Claim(2, 3, kWantScores)).ok());
          slab->Seal();
          BatchWaiter waiter;
          engine->Submit(std::move(slab), waiter, round % 2 == 0 ? Where::kAnywhere : Where::kEngineThreads);
          slab = waiter.Wait();
          ASSERT_NE(slab, nullptr);
          right += slab->status.ok() && slab->scores(0)[0] == number && slab->scores(1)[0] == number + 1 ? 1 : 0;
          calls += waiter.calls();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(right, kThreads * kRounds);
    EXPECT_EQ(calls, kThreads * kRounds);
  }
}

TEST(Engine, ScoresSmallBatchesOnTheCallingThreadOnlyWhereAllowed) {
  const auto engine = CpuEngine();
  const auto model = *engine->Load(test::R4());
  std::thread::id scorer;
  BatchWaiter waiter;
  Calling listener([&](SlabHandle slab) {
    scorer = std::this_thread::get_id();
    waiter.OnBatchDone(std::move(slab));
  });
  engine->Submit(Batch(*engine, model, OneRow()), listener, Where::kAnywhere);
  EXPECT_EQ(waiter.calls(), 1) << "done inside Submit";
  EXPECT_EQ(scorer, std::this_thread::get_id());
  waiter.Wait();
  engine->Submit(Batch(*engine, model, OneRow()), listener, Where::kEngineThreads);
  waiter.Wait();
  EXPECT_NE(scorer, std::this_thread::get_id());
}

TEST(Engine, ScoresASlabOfTheCallersOwnOnItsThread) {
  for (const Route route : {Route::kAuto, Route::kInline}) {
    const auto engine = CpuEngine(route);
    const auto model = *engine->Load(test::R4());
    const auto slab = engine->MakeSlab({.rows = 8, .entries = 64, .results = 8, .context_sums = 8});
    ASSERT_NE(slab, nullptr);
    for (int round = 0; round < 3; ++round) {
      Fill(*slab, model, OneRow());
      ASSERT_TRUE(engine->IsFirstHere(*model, slab->kind(), slab->rows(), slab->entries()));
      ASSERT_TRUE(engine->ScoreHere(*slab));
      EXPECT_TRUE(slab->status.ok()) << slab->status;
      EXPECT_EQ(slab->device, 0);
      EXPECT_EQ(slab->route, Route::kInline);
      EXPECT_GT(slab->stages[Stage::kCompute].count(), 0);
      EXPECT_NEAR(slab->scores(0)[0], 0.994779874, 1e-7);
    }
    slab->Close();
    EXPECT_EQ(model.use_count(), 1) << "the slab keeps no model alive";
  }
}

TEST(Engine, ScoresNothingHereThatItWouldSendElsewhere) {
  const auto engine = CpuEngine(Route::kPool);
  const auto model = *engine->Load(test::R4());
  const auto slab = engine->MakeSlab({.rows = 8, .entries = 64, .results = 8, .context_sums = 8});
  Fill(*slab, model, OneRow());
  EXPECT_FALSE(engine->IsFirstHere(*model, slab->kind(), 1, 1));
  EXPECT_FALSE(engine->ScoreHere(*slab));
  EXPECT_EQ(slab->device, -1);
  EXPECT_EQ(slab->route, Route::kAuto);
}

TEST(Engine, ScoresHereOnAsManyThreadsAsTheCpuHas) {
  auto control = std::make_shared<FakeDeviceControl>();
  Backends backends;
  backends.devices.push_back(FakeDevice::Cpu(control));
  EngineOptions options = Options();
  options.devices.kind = DeviceSelection::Kind::kCpu;
  const auto engine = *Engine::CreateWithDevices(options, std::move(backends));
  const auto model = *engine->Load(test::R4());
  const BatchKind kind{.values = Values::kFloat32};
  const auto starts = [&] { return engine->StartsAtOnce(*model, kind, 1, 1, Where::kAnywhere); };
  EXPECT_TRUE(starts());
  const uint64_t before = control->batches();
  control->Block();
  const auto lanes = FakeDevice::Cpu(control)->lanes();
  std::vector<std::thread> threads;
  for (size_t i = 0; i < lanes; ++i) {
    threads.emplace_back([&] {
      const auto slab = engine->MakeSlab({.rows = 1, .entries = 1, .results = 1, .context_sums = 0});
      Fill(*slab, model, OneRow());
      EXPECT_TRUE(engine->ScoreHere(*slab));
    });
  }
  EXPECT_TRUE(control->WaitForBatches(before + lanes, kPatience));
  EXPECT_FALSE(starts());
  EXPECT_FALSE(engine->IsFirstHere(*model, kind, 1, 1));
  const auto slab = engine->MakeSlab({.rows = 1, .entries = 1, .results = 1, .context_sums = 0});
  Fill(*slab, model, OneRow());
  EXPECT_FALSE(engine->ScoreHere(*slab));
  control->Unblock();
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(engine->ScoreHere(*slab));
  EXPECT_TRUE(starts());
}

TEST(Engine, KeepsItsWordOnThreadsForEmptyBatchesToo) {
  const auto engine = CpuEngine();
  const auto model = *engine->Load(test::R4());
  std::thread::id scorer;
  BatchWaiter waiter;
  Calling listener([&](SlabHandle slab) {
    scorer = std::this_thread::get_id();
    waiter.OnBatchDone(std::move(slab));
  });
  engine->Submit(Batch(*engine, model, {}), listener, Where::kEngineThreads);
  const SlabHandle slab = waiter.Wait();
  ASSERT_NE(slab, nullptr);
  EXPECT_TRUE(slab->status.ok());
  EXPECT_NE(scorer, std::this_thread::get_id());
}

TEST(Engine, MayBeGivenTheNextBatchFromInsideTheListener) {
  const auto engine = CpuEngine();
  const auto model = *engine->Load(test::R4());
  std::atomic<int> left{200};
  BatchWaiter waiter;
  std::optional<Calling> listener;
  listener.emplace([&](SlabHandle slab) {
    if (--left == 0) return waiter.OnBatchDone(std::move(slab));
    slab.reset();
    engine->Submit(Batch(*engine, model, OneRow()), *listener, Where::kEngineThreads);
  });
  engine->Submit(Batch(*engine, model, OneRow()), *listener, Where::kEngineThreads);
  const SlabHandle last = waiter.Wait();
  ASSERT_NE(last, nullptr);
  EXPECT_NEAR(last->scores(0)[0], 0.994779874, 1e-7);
}

TEST(Engine, WaitsForSubmittedBatchesBeforeItGoes) {
  const auto control = std::make_shared<FakeDeviceControl>();
  auto engine = MakeEngine(Options(), {control});
  std::atomic<int> calls{0};
  Calling listener([&](SlabHandle slab) { calls += slab->status.ok() ? 1 : 0; });
  {
    const auto model = *engine->Load(test::R4());
    control->set_delay(milliseconds(20));
    for (int i = 0; i < 6; ++i) engine->Submit(Batch(*engine, model, OneRow()), listener, Where::kEngineThreads);
  }
  engine.reset();
  EXPECT_EQ(calls, 6);
}

TEST(Engine, SaysWhereTimeWent) {
  const auto engine = CpuEngine();
  const auto model = *engine->Load(test::R4());
  BatchWaiter waiter;
  engine->Submit(Batch(*engine, model, std::vector<Row>(1000, OneRow()[0])), waiter, Where::kEngineThreads);
  const SlabHandle slab = waiter.Wait();
  ASSERT_NE(slab, nullptr);
  EXPECT_EQ(slab->device, 0);
  EXPECT_GT(slab->stages[Stage::kCompute].count(), 0);
  EXPECT_EQ(slab->stages[Stage::kTransferIn].count(), 0);
}

TEST(Engine, RefusesModelsWithMoreOutputsThanASlabHolds) {
  EngineOptions options = Options();
  options.slab.results = 8;
  options.devices.kind = DeviceSelection::Kind::kCpu;
  const auto engine = *Engine::Create(options);
  test::Random random(1);
  EXPECT_TRUE(engine->Load(test::RandomModel({.outputs = 8}, random)).ok());
  const auto loaded = engine->Load(test::RandomModel({.outputs = 9}, random));
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(loaded.status().message(), "9 outputs")) << loaded.status();
}

TEST(Engine, NamesOptionsOutOfRange) {
  const auto refused = [](const std::function<void(EngineOptions&)>& change, const std::string& name) {
    EngineOptions options = Options();
    options.devices.kind = DeviceSelection::Kind::kCpu;
    change(options);
    const auto engine = Engine::Create(options);
    EXPECT_EQ(engine.status().code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_TRUE(absl::StrContains(engine.status().message(), name)) << engine.status();
  };
  refused([](EngineOptions& o) { o.slab.rows = 0; }, "slab rows");
  refused([](EngineOptions& o) { o.slab.entries = 0xFFFFFFFF; }, "slab entries");
  refused([](EngineOptions& o) { o.slab.results = 0; }, "slab results");
  refused([](EngineOptions& o) { o.slab.context_sums = 0xFFFFFFFF; }, "slab context sums");
  refused([](EngineOptions& o) { o.slabs = 0; }, "slabs");
  refused([](EngineOptions& o) { o.lanes = 0; }, "lanes");
  refused([](EngineOptions& o) { o.cpu_threads = 100'000; }, "cpu threads");
  refused([](EngineOptions& o) { o.lane_bytes = 1; }, "lane bytes");
  refused([](EngineOptions& o) { o.spin_microseconds = 1'000'000; }, "spin microseconds");
}

TEST(Engine, KnowsItsLimits) {
  const auto engine = CpuEngine();
  EXPECT_EQ(engine->limits().max_rows, Options().slab.rows);
  EXPECT_EQ(engine->limits().max_entries, Options().slab.entries);
  EXPECT_EQ(engine->limits().max_row_entries, Options().slab.entries);
  EXPECT_FALSE(engine->uses_gpus());
  ASSERT_EQ(engine->devices().size(), 1U);
  EXPECT_EQ(engine->devices()[0].id, "cpu");
  EXPECT_EQ(engine->devices()[0].index, -1);
}

TEST(Engine, FallsBackToTheCpuAloudOrRefuses) {
  EngineOptions options = Options();
  const auto demanded = Engine::Create(options);
  options.devices.kind = DeviceSelection::Kind::kAuto;
  const auto automatic = Engine::Create(options);
  ASSERT_TRUE(automatic.ok()) << automatic.status();
  EXPECT_EQ((*automatic)->fallback_reason().empty(), (*automatic)->uses_gpus());
  EXPECT_EQ(demanded.ok(), (*automatic)->uses_gpus());
  if (demanded.ok()) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(demanded.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(demanded.status().message(), (*automatic)->fallback_reason())) << demanded.status();
  const auto model = *(*automatic)->Load(test::R4());
  EXPECT_NEAR(ScoreBatch(**automatic, model, OneRow(), true)->at(0).scores[0], 0.994779874, 1e-7);
}

TEST(Engine, AListOfGpusThatAreNotThereIsAnErrorInWords) {
  EngineOptions options = Options();
  options.devices = *ParseDevices("63");
  const auto engine = Engine::Create(options);
  EXPECT_EQ(engine.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(engine.status().message(), "GPU")) << engine.status();
}

}  // namespace
}  // namespace widelane
