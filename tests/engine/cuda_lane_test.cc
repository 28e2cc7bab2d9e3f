// The GPU's lanes without the engine around them: every way a piece of a batch can go, compared with the CPU's bits.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backend.h"
#include "cpu/cpu_device.h"
#include "cuda/cuda_backend.h"
#include "harness.h"
#include "plain_memory.h"
#include "thread_pool.h"
#include "widelane/engine/context_sums.h"
#include "widelane/engine/engine.h"

namespace widelane {
namespace {

using test::Between;
using test::ModelSpec;
using test::Random;
using test::Row;

// A batch's results, with nothing where nothing was wanted.
struct Results {
  std::vector<float> scores;
  std::vector<double> raw;
  std::vector<uint32_t> best_outputs;
  std::vector<float> best_scores;
};

template <typename T>
std::vector<T> Take(const T* from, size_t count) {
  return from == nullptr ? std::vector<T>() : std::vector<T>(from, from + count);
}

template <typename T>
void Spoil(T* results, size_t count) {
  if (results != nullptr) std::memset(results, 0xEE, count * sizeof(T));
}

template <typename T>
size_t FirstDifference(const std::vector<T>& a, const std::vector<T>& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) return i;
  }
  return std::min(a.size(), b.size());
}

template <typename T>
void ExpectSame(const char* name, const std::vector<T>& expected, const std::vector<T>& actual) {
  ASSERT_EQ(expected.size(), actual.size()) << name;
  const size_t at = FirstDifference(expected, actual);
  if (at < expected.size())
    ADD_FAILURE() << name << "[" << at << "]: " << expected[at] << " expected, is " << actual[at];
}

void ExpectSame(const Results& expected, const Results& actual) {
  ExpectSame("scores", expected.scores, actual.scores);
  ExpectSame("raw", expected.raw, actual.raw);
  ExpectSame("best_outputs", expected.best_outputs, actual.best_outputs);
  ExpectSame("best_scores", expected.best_scores, actual.best_scores);
}

// Values that each kind holds exactly; none for ones.
void SetValues(Values kind, std::vector<Row>& rows, Random& random) {
  for (Row& row : rows) {
    row.values.clear();
    if (kind == Values::kOnes) continue;
    for (size_t i = 0; i < row.features.size(); ++i) {
      const float value = static_cast<float>(Between(random, -2000, 2000)) / 64.0F;
      row.values.push_back(kind == Values::kFloat16 ? std::trunc(value) : value * 1.0001F);
    }
  }
}

struct Job {
  ModelSpec model;
  BatchKind kind;
  uint8_t wants = kWantScores | kWantRaw;
  size_t rows = 300;
  std::vector<int64_t> long_rows;  // lengths of further rows, spread among the others
  int64_t shortest = 0;            // of the others
  int64_t longest = 40;
  size_t contexts = 0;  // that the rows share
};

std::vector<Row> RowsOf(const Job& job, Random& random) {
  std::vector<Row> rows = test::RandomRows(
      job.rows, {.features = job.model.features, .shortest = job.shortest, .longest = job.longest, .has_values = false},
      random);
  for (const int64_t length : job.long_rows) {
    const Row row = test::RandomRow(
        {.features = job.model.features, .shortest = length, .longest = length, .has_values = false}, random);
    rows.insert(rows.begin() + Between(random, 0, static_cast<int64_t>(rows.size())), row);
  }
  SetValues(job.kind.values, rows, random);
  return rows;
}

// Contexts of a job, and which of them each of `rows` rows has.
struct MadeContexts {
  test::CsrArrays features;
  std::vector<uint32_t> of;

  MadeContexts(const Job& job, size_t rows, Random& random) : features(Made(job, random), HasValues(job)) {
    for (size_t r = 0; r < rows; ++r) of.push_back(static_cast<uint32_t>(random() % job.contexts));
  }
  RowContexts view() const { return {features.view(), TypedArray::Of(ElementType::kU32, of.data(), of.size())}; }

  static bool HasValues(const Job& job) { return job.kind.values != Values::kOnes; }
  static std::vector<Row> Made(const Job& job, Random& random) {
    std::vector<Row> rows =
        test::RandomRows(job.contexts, {.features = job.model.features, .longest = 60, .has_values = false}, random);
    SetValues(job.kind.values, rows, random);
    return rows;
  }
};

EngineOptions SmallOptions() {
  EngineOptions options;
  options.devices.kind = DeviceSelection::Kind::kGpu;
  options.slab = {.rows = 4096, .entries = 1 << 17, .results = 1 << 18};
  options.check_pinned = true;
  return options;
}

EngineOptions WithLaneBytes(size_t bytes) {
  EngineOptions options = SmallOptions();
  options.lane_bytes = bytes;
  return options;
}

class CudaLane : public ::testing::Test {
 protected:
  // Finds the GPUs, or skips with the reason why there are none.
  void SetUp() override { Use(SmallOptions()); }

  void Use(const EngineOptions& options) {
    slab_.reset();  // before its memory
    options_ = options;
    gpus_ = DiscoverCudaDevices(options.devices, options);
    if (gpus_.devices.empty()) {
      if (std::getenv("WIDELANE_REQUIRE_GPU") != nullptr) FAIL() << gpus_.reason;
      GTEST_SKIP() << gpus_.reason;
    }
    cpu_ = *MakeCpuDevice(options, std::make_shared<ThreadPool>(0, std::chrono::microseconds(0)));
    slab_ = *Slab::Create(options.slab, *gpus_.memory);
  }

  Device& gpu() { return *gpus_.devices.front(); }

  // The first GPU `times` times as one device.
  std::unique_ptr<Device> Sharded(size_t times) {
    return MakeShardedCudaDevice(std::vector<DeviceInfo>(times, gpu().info()), options_);
  }

  void Pack(const std::shared_ptr<const Model>& model, const Job& job, const std::vector<Row>& rows, Random& random) {
    const test::CsrArrays arrays(rows, job.kind.values != Values::kOnes);
    const CsrView view = arrays.view();
    BatchKind kind = job.kind;
    kind.contexts = job.contexts > 0;
    ContextSums sums;
    std::optional<MadeContexts> contexts;
    if (kind.contexts) {
      contexts.emplace(job, rows.size(), random);
      const absl::Status status = sums.Compute(*model, view, contexts->view(), kind.values, options_.slab.context_sums);
      ASSERT_TRUE(status.ok()) << status;
    }
    slab_->Open(std::make_shared<LoadedModel>(model, std::vector<std::unique_ptr<ResidentModel>>(), false), kind);
    const auto segment = slab_->Claim(rows.size(), view.indices.count, job.wants, kind.contexts ? sums.lines() : 0);
    ASSERT_TRUE(segment.has_value()) << "the rows do not fit into the slab";
    RowCursor cursor(view);
    const auto packed = PackRows(view, cursor, *slab_, *segment, kind.contexts ? &sums : nullptr);
    ASSERT_TRUE(packed.ok()) << packed.status();
    slab_->Seal();
  }

  // Scores the packed batch in the given pieces, [0, pieces[0]), [pieces[0], pieces[1]) and so on.
  Results Score(Lane& lane, const ResidentModel& resident, const Model& model, std::vector<uint32_t> pieces,
                bool mapped) {
    const BatchView& view = slab_->view();
    const size_t results = size_t{view.rows} * model.outputs();
    const size_t best = size_t{view.rows} * view.best;
    Spoil(view.scores, results);
    Spoil(view.raw, results);
    Spoil(view.best_outputs, best);
    Spoil(view.best_scores, best);
    uint32_t row = 0;
    pieces.push_back(view.rows);
    for (const uint32_t end : pieces) {
      const LaneWork work = {.model = &model,
                             .resident = &resident,
                             .batch = &view,
                             .first_row = row,
                             .rows = end - row,
                             .mapped = mapped};
      const absl::Status status = lane.Score(work, stages_);
      EXPECT_TRUE(status.ok()) << status;
      row = end;
    }
    return {Take(view.scores, results), Take(view.raw, results), Take(view.best_outputs, best),
            Take(view.best_scores, best)};
  }

  // Every way through a lane of `device`, against the CPU.
  void ExpectCpusBits(Device& device, Lane& lane, const Job& job, Random& random) {
    SCOPED_TRACE(absl::StrCat(test::Describe(job.model), ", values ", static_cast<int>(job.kind.values), ", best ",
                              job.kind.best, ", ", job.rows, " rows, ", job.contexts, " contexts"));
    const std::shared_ptr<const Model> model = test::RandomModel(job.model, random);
    Pack(model, job, RowsOf(job, random), random);
    if (HasFatalFailure()) return;
    const auto cpu_lane = *cpu_->MakeLane();
    const auto cpu_resident = *cpu_->Load(*model);
    const Results expected = Score(*cpu_lane, *cpu_resident, *model, {}, false);
    ASSERT_TRUE(device.BindThread().ok());
    const auto resident = device.Load(*model);
    ASSERT_TRUE(resident.ok()) << resident.status();
    for (const bool mapped : {false, true}) {
      SCOPED_TRACE(mapped ? "mapped" : "copied");
      ExpectSame(expected, Score(lane, **resident, *model, {}, mapped));
      if (job.rows > 96) ExpectSame(expected, Score(lane, **resident, *model, {64, 96}, mapped));
    }
  }

  EngineOptions options_;
  CudaDiscovery gpus_;
  std::unique_ptr<Device> cpu_;
  std::unique_ptr<Slab> slab_;
  StageTimes stages_;
};

constexpr WeightType kTypes[] = {WeightType::kFloat32, WeightType::kFloat16, WeightType::kBfloat16, WeightType::kInt8};
constexpr Link kLinks[] = {Link::kIdentity, Link::kSigmoid, Link::kExp, Link::kSoftmax, Link::kOneVsRest};

template <typename T, size_t n>
T AnyOf(const T (&choices)[n], Random& random) {
  return choices[random() % n];
}

Job AnyJob(Random& random) {
  Job job;
  job.model.outputs = AnyOf({1U, 1U, 2U, 3U, 20U, 33U, 64U, 250U, 600U}, random);
  job.model.features = job.model.outputs > 3 || random() % 2 == 0 ? 300 : 70'000;
  job.model.type = AnyOf(kTypes, random);
  job.model.link = AnyOf(kLinks, random);
  if (job.model.outputs == 1) job.model.link = AnyOf({Link::kIdentity, Link::kSigmoid, Link::kExp}, random);
  // Beyond 2^60 terms are not split.
  if (random() % 8 == 0 && job.model.type == WeightType::kFloat32) job.model.high = 25;
  job.kind.values = static_cast<Values>(random() % 3);
  if (random() % 2 == 0) job.kind.best = static_cast<uint32_t>(Between(random, 1, std::min(job.model.outputs, 12U)));
  job.wants = static_cast<uint8_t>(1 + random() % 3);
  job.rows = AnyOf({size_t{1}, size_t{31}, size_t{32}, size_t{100}, size_t{333}}, random);
  // Lengths in one byte, in two, and in none.
  if (random() % 3 == 0) job.long_rows = {400, 1500, 20'000};
  if (random() % 10 == 0) job.long_rows = {70'000};
  if (random() % 2 == 0) job.contexts = AnyOf({size_t{1}, size_t{3}, size_t{20}}, random);
  return job;
}

// Rows of one length each, short and long, in one chunk or in several where a lane holds few entries.
std::vector<Job> UniformJobs() {
  std::vector<Job> jobs;
  for (const int64_t length : {1, 7, 40, 300}) {
    for (const Values values : {Values::kOnes, Values::kFloat16, Values::kFloat32}) {
      for (const uint32_t outputs : {1U, 3U, 60U}) {
        Job& job = jobs.emplace_back();
        job.model = {.features = 70'000 / outputs, .outputs = outputs, .link = Link::kSigmoid};
        job.kind.values = values;
        job.rows = std::min<size_t>(3001, static_cast<size_t>(100'000 / length));
        job.shortest = length;
        job.longest = length;
        job.contexts = jobs.size() % 2 == 0 ? 5 : 0;
      }
    }
  }
  return jobs;
}

TEST_F(CudaLane, GivesTheCpusBitsEveryWay) {
  Random random(20261130);
  auto lane = *gpu().MakeLane();
  for (int round = 0; round < 150 && !HasFailure(); ++round) ExpectCpusBits(gpu(), *lane, AnyJob(random), random);
}

TEST_F(CudaLane, GivesThemThroughAFewKilobytes) {
  Use(WithLaneBytes(EngineLimits::kMinLaneBytes));
  if (IsSkipped()) return;
  Random random(7);
  auto lane = *gpu().MakeLane();
  for (int round = 0; round < 100 && !HasFailure(); ++round) ExpectCpusBits(gpu(), *lane, AnyJob(random), random);
}

TEST_F(CudaLane, StreamsALargeBatchInManyChunks) {
  Use(WithLaneBytes(EngineLimits::kMinLaneBytes));
  if (IsSkipped()) return;
  Random random(8);
  auto lane = *gpu().MakeLane();
  for (const Values values : {Values::kOnes, Values::kFloat16, Values::kFloat32}) {
    for (const uint32_t outputs : {1U, 60U}) {
      for (const size_t contexts : {0, 20}) {
        Job job;
        job.model = {.features = 70'000 / outputs, .outputs = outputs, .link = Link::kSigmoid};
        job.kind.values = values;
        job.rows = 4000;
        job.contexts = contexts;
        stages_ = {};
        ExpectCpusBits(gpu(), *lane, job, random);
        EXPECT_GT(stages_[Stage::kLaunch].count(), 0);
        EXPECT_GT(stages_[Stage::kTransferIn].count(), 0);
        EXPECT_GT(stages_[Stage::kCompute].count(), 0);
        EXPECT_EQ(stages_[Stage::kTransferOut].count() > 0, outputs > 1) << "few results are written by the kernels";
      }
    }
  }
}

TEST_F(CudaLane, NeedsNoArraysForRowsOfOneLength) {
  for (const size_t lane_bytes : {SmallOptions().lane_bytes, size_t{EngineLimits::kMinLaneBytes}}) {
    Use(WithLaneBytes(lane_bytes));
    if (IsSkipped()) return;
    Random random(19);
    auto lane = *gpu().MakeLane();
    for (const Job& job : UniformJobs()) {
      ExpectCpusBits(gpu(), *lane, job, random);
      EXPECT_EQ(UniformLength(slab_->view()), job.longest);
    }
  }
}

TEST_F(CudaLane, ScoresRowsWithoutEntries) {
  Random random(9);
  auto lane = *gpu().MakeLane();
  Job job;
  job.model = {.features = 10, .outputs = 3};
  job.rows = 0;
  job.long_rows = std::vector<int64_t>(100, 0);
  ExpectCpusBits(gpu(), *lane, job, random);
}

TEST_F(CudaLane, ScoresNothingWhereNothingIsWanted) {
  Random random(9);
  auto lane = *gpu().MakeLane();
  Job job;
  job.wants = 0;
  ExpectCpusBits(gpu(), *lane, job, random);
}

TEST_F(CudaLane, FinishesOnAnotherThread) {
  Random random(10);
  Job job;
  const std::shared_ptr<const Model> model = test::RandomModel(job.model, random);
  Pack(model, job, RowsOf(job, random), random);
  ASSERT_TRUE(gpu().BindThread().ok());
  const auto resident = *gpu().Load(*model);
  auto lane = *gpu().MakeLane();
  const BatchView& view = slab_->view();
  const LaneWork work = {.model = model.get(), .resident = resident.get(), .batch = &view, .rows = view.rows};
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(lane->Start(work).ok());
    absl::Status status;
    std::thread([&] { status = lane->Finish(stages_); }).join();
    ASSERT_TRUE(status.ok()) << status;
  }
}

// Of each stage one after the other, and when the host waited for them.
void ExpectPlausible(const PieceRecord& record, std::chrono::steady_clock::time_point begin,
                     std::chrono::steady_clock::time_point end) {
  constexpr std::chrono::milliseconds kAsWellAsClocksAgree{1};
  for (const Stage stage : {Stage::kTransferIn, Stage::kCompute, Stage::kTransferOut}) {
    auto last = begin - kAsWellAsClocksAgree;
    for (size_t i = 0; i < record.span_count; ++i) {
      const StageSpan& span = record.spans[i];
      if (span.stage != stage) continue;
      EXPECT_LE(last, span.begin) << i;
      EXPECT_LE(span.begin, span.end) << i;
      EXPECT_LE(span.end, end + kAsWellAsClocksAgree) << i;
      last = span.end;
    }
  }
}

TEST_F(CudaLane, TellsWhenEachStageRan) {
  Use(WithLaneBytes(EngineLimits::kMinLaneBytes));
  if (IsSkipped()) return;
  Random random(13);
  Job job;
  job.model = {.features = 1000, .outputs = 60};
  job.kind.values = Values::kFloat32;  // which makes chunks small
  job.rows = 4000;
  const std::shared_ptr<const Model> model = test::RandomModel(job.model, random);
  Pack(model, job, RowsOf(job, random), random);
  ASSERT_TRUE(gpu().BindThread().ok());
  const auto resident = *gpu().Load(*model);
  auto lane = *gpu().MakeLane();
  const BatchView& view = slab_->view();
  PieceRecord record;
  LaneWork work = {
      .model = model.get(), .resident = resident.get(), .batch = &view, .rows = view.rows, .record = &record};
  for (int round = 0; round < 3; ++round) {
    record.span_count = 0;
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(lane->Score(work, stages_).ok());
    EXPECT_EQ(record.span_count, 27U) << "eight chunks and the rest, each copied, computed and copied out";
    ExpectPlausible(record, begin, std::chrono::steady_clock::now());
  }
  work.mapped = true;
  record.span_count = 0;
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(lane->Score(work, stages_).ok());
  EXPECT_EQ(record.span_count, 1U);
  ExpectPlausible(record, begin, std::chrono::steady_clock::now());
}

TEST_F(CudaLane, TwoWorkAtOnce) {
  Random random(11);
  Job job;
  job.model.link = Link::kSigmoid;
  job.rows = 3000;
  const std::shared_ptr<const Model> model = test::RandomModel(job.model, random);
  Pack(model, job, RowsOf(job, random), random);
  const auto cpu_lane = *cpu_->MakeLane();
  const auto cpu_resident = *cpu_->Load(*model);
  const Results expected = Score(*cpu_lane, *cpu_resident, *model, {}, false);
  const auto resident = *gpu().Load(*model);
  const BatchView& view = slab_->view();
  Spoil(view.scores, view.rows);
  Spoil(view.raw, view.rows);
  const auto work_on = [&](uint32_t first_row, uint32_t rows, bool mapped) {
    ASSERT_TRUE(gpu().BindThread().ok());
    auto lane = *gpu().MakeLane();
    StageTimes stages;
    const LaneWork work = {.model = model.get(),
                           .resident = resident.get(),
                           .batch = &view,
                           .first_row = first_row,
                           .rows = rows,
                           .mapped = mapped};
    for (int round = 0; round < 50; ++round) ASSERT_TRUE(lane->Score(work, stages).ok());
  };
  std::thread other([&] { work_on(0, 1600, false); });
  work_on(1600, view.rows - 1600, true);
  other.join();
  ExpectSame(expected, {Take(view.scores, view.rows), Take(view.raw, view.rows), {}, {}});
}

TEST_F(CudaLane, RefusesAModelBeyondTheBudgetBeforeItAllocates) {
  Random random(12);
  EngineOptions options = SmallOptions();
  options.gpu_memory = 300'000;
  Use(options);
  if (IsSkipped()) return;
  const auto large = test::RandomModel({.features = 100'000}, random);
  const auto refused = gpu().Load(*large);
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << refused.status();
  EXPECT_NE(std::string(refused.status().message()).find("300000"), std::string::npos) << refused.status();
  const auto half = test::RandomModel({.features = 40'000}, random);
  auto first = gpu().Load(*half);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(gpu().Load(*half).ok()) << "what is loaded counts";
  first->reset();
  EXPECT_TRUE(gpu().Load(*half).ok()) << "what is unloaded does not";
}

TEST_F(CudaLane, ShardsGiveTheCpusBits) {
  Random random(13);
  for (const size_t times : {2, 3}) {
    const auto device = Sharded(times);
    auto lane = device->MakeLane();
    ASSERT_TRUE(lane.ok()) << lane.status();
    for (int round = 0; round < 60 && !HasFailure(); ++round) ExpectCpusBits(*device, **lane, AnyJob(random), random);
  }
}

TEST_F(CudaLane, ShardsStreamThroughAFewKilobytes) {
  Use(WithLaneBytes(EngineLimits::kMinLaneBytes));
  if (IsSkipped()) return;
  Random random(14);
  const auto device = Sharded(2);
  auto lane = *device->MakeLane();
  for (int round = 0; round < 60 && !HasFailure(); ++round) ExpectCpusBits(*device, *lane, AnyJob(random), random);
}

TEST_F(CudaLane, ShardsNeedNoArraysForRowsOfOneLength) {
  Use(WithLaneBytes(EngineLimits::kMinLaneBytes));
  if (IsSkipped()) return;
  Random random(20);
  const auto device = Sharded(2);
  auto lane = *device->MakeLane();
  for (const Job& job : UniformJobs()) ExpectCpusBits(*device, *lane, job, random);
}

// Sums of a group of rows are more than a slab's results: rows then go by the few.
TEST_F(CudaLane, ShardsOfManyOutputsGoByTheRow) {
  Random random(15);
  EngineOptions options = SmallOptions();
  options.slab.results = 2000;
  Use(options);
  if (IsSkipped()) return;
  const auto device = Sharded(2);
  auto lane = *device->MakeLane();
  for (const uint32_t outputs : {100U, 600U, 2000U}) {
    for (const Link link : kLinks) {
      Job job;
      job.model = {.features = 300, .outputs = outputs, .link = link};
      job.kind = {.values = Values::kFloat16, .best = 5};
      job.rows = 130;
      job.contexts = 3;
      job.long_rows = {1500};
      ExpectCpusBits(*device, *lane, job, random);
      job.long_rows = {};
      job.shortest = job.longest;
      ExpectCpusBits(*device, *lane, job, random);
    }
  }
}

TEST_F(CudaLane, ShardsHoldWhatOneGpuCannot) {
  Random random(16);
  EngineOptions options = SmallOptions();
  options.gpu_memory = 300'000;
  Use(options);
  if (IsSkipped()) return;
  const auto device = Sharded(2);
  auto lane = *device->MakeLane();
  Job job;
  job.model = {.features = 100'000, .link = Link::kSigmoid};
  ExpectCpusBits(*device, *lane, job, random);
  const auto too_large = test::RandomModel({.features = 200'000}, random);
  EXPECT_FALSE(gpu().Load(*too_large).ok());
  EXPECT_EQ(device->Load(*too_large).status().code(), absl::StatusCode::kResourceExhausted);
}

// Sums in float32 agree with exact ones to a few digits.
TEST_F(CudaLane, CusparseComesClose) {
  Random random(17);
  EngineOptions options = SmallOptions();
  options.kernel = SumKernel::kCusparse;
  Use(options);
  if (IsSkipped()) return;
  ASSERT_TRUE(gpu().BindThread().ok());
  auto lane = gpu().MakeLane();
  if (lane.status().code() == absl::StatusCode::kFailedPrecondition) GTEST_SKIP() << lane.status();
  ASSERT_TRUE(lane.ok()) << lane.status();
  for (const WeightType type : kTypes) {
    for (const uint32_t outputs : {1U, 20U, 600U}) {
      Job job;
      job.model = {.features = 300, .outputs = outputs, .type = type, .link = Link::kSigmoid};
      job.kind.values = AnyOf({Values::kOnes, Values::kFloat16, Values::kFloat32}, random);
      job.contexts = outputs == 20 ? 3 : 0;
      const std::shared_ptr<const Model> model = test::RandomModel(job.model, random);
      Pack(model, job, RowsOf(job, random), random);
      const auto cpu_lane = *cpu_->MakeLane();
      const auto cpu_resident = *cpu_->Load(*model);
      const Results expected = Score(*cpu_lane, *cpu_resident, *model, {}, false);
      const auto resident = *gpu().Load(*model);
      stages_ = {};
      const Results actual = Score(**lane, *resident, *model, {64}, false);
      EXPECT_GT(stages_[Stage::kCompute].count(), 0);
      const auto [low, high] = std::minmax_element(expected.raw.begin(), expected.raw.end());
      const double tolerance = 1e-4 * std::max(std::fabs(*low), std::fabs(*high));
      for (size_t i = 0; i < expected.raw.size(); ++i) ASSERT_NEAR(expected.raw[i], actual.raw[i], tolerance) << i;
    }
  }
}

using CudaLaneDeathTest = CudaLane;

TEST_F(CudaLaneDeathTest, MemoryThatIsNotPinnedStopsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  Random random(18);
  test::PlainMemory memory;
  slab_ = *Slab::Create(options_.slab, memory);
  Job job;
  const std::shared_ptr<const Model> model = test::RandomModel(job.model, random);
  Pack(model, job, RowsOf(job, random), random);
  ASSERT_TRUE(gpu().BindThread().ok());
  const auto resident = *gpu().Load(*model);
  auto lane = *gpu().MakeLane();
  const LaneWork work = {
      .model = model.get(), .resident = resident.get(), .batch = &slab_->view(), .rows = slab_->view().rows};
  EXPECT_DEATH((void)lane->Start(work), "not pinned: row_begin");
  slab_.reset();
}

}  // namespace
}  // namespace widelane
