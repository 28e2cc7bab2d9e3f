#include "backends_under_test.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace widelane::test {
namespace {

// Small enough that an engine is made in no time; tests of large batches ask for more.
EngineOptions SmallOptions() {
  EngineOptions options;
  options.slab = {.rows = 40'000, .entries = 1 << 19, .results = 1 << 17};
  options.slabs = 2;
  options.measure_costs = false;
  return options;
}

BackendUnderTest Cpu(const std::string& name, InstructionSet set, size_t threads) {
  EngineOptions options = SmallOptions();
  options.devices.kind = DeviceSelection::Kind::kCpu;
  options.instruction_set = set;
  options.cpu_threads = threads;
  return {absl::StrCat(name, "Threads", threads), options};
}

#ifdef WIDELANE_TEST_CUDA
BackendUnderTest Gpu(const std::string& name, Route route, size_t lane_bytes) {
  EngineOptions options = SmallOptions();
  options.devices.kind = DeviceSelection::Kind::kGpu;
  options.route = route;
  options.lane_bytes = lane_bytes;
  options.check_pinned = true;
  return {name, options};
}
#endif

}  // namespace

std::vector<BackendUnderTest> AllBackends() {
  std::vector<BackendUnderTest> backends;
  for (const size_t threads : {1, 2, 5}) {
    backends.push_back(Cpu("Plain", InstructionSet::kPlain, threads));
    backends.push_back(Cpu("Avx2", InstructionSet::kAvx2, threads));
    backends.push_back(Cpu("Avx512", InstructionSet::kAvx512, threads));
  }
  for (const size_t threads : {3, 4, 6, 7, 8}) backends.push_back(Cpu("Best", InstructionSet::kBest, threads));
#ifdef WIDELANE_TEST_CUDA
  backends.push_back(Gpu("GpuMapped", Route::kMapped, EngineOptions().lane_bytes));
  backends.push_back(Gpu("GpuCopied", Route::kCopied, EngineOptions().lane_bytes));
  backends.push_back(Gpu("GpuInPieces", Route::kAllGpus, EngineLimits::kMinLaneBytes));
#endif
  return backends;
}

void EveryBackend::MakeEngine(const EngineOptions& options) {
  engine_ = nullptr;
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(options);
  if (!engine.ok()) {
    const bool gpu = options.devices.kind == DeviceSelection::Kind::kGpu;
    if (engine.status().code() != absl::StatusCode::kFailedPrecondition ||
        (gpu && std::getenv("WIDELANE_REQUIRE_GPU") != nullptr)) {
      FAIL() << engine.status();
    }
    GTEST_SKIP() << engine.status();
  }
  engine_ = *std::move(engine);
}

void EveryBackend::SetUp() { MakeEngine(GetParam().options); }

void EveryBackend::TearDown() {
  if (engine_ == nullptr) return;
  EXPECT_EQ(engine_->device_failures(), 0U);
}

void EveryBackend::UseSlabs(const SlabOptions& slab) {
  EngineOptions options = GetParam().options;
  options.slab = slab;
  options.slabs = 1;
  MakeEngine(options);
}

std::shared_ptr<const LoadedModel> EveryBackend::Load(std::shared_ptr<const Model> model) {
  absl::StatusOr<std::shared_ptr<const LoadedModel>> loaded = engine_->Load(std::move(model));
  if (!loaded.ok()) {
    ADD_FAILURE() << loaded.status();
    return nullptr;
  }
  return *std::move(loaded);
}

std::vector<RowScore> EveryBackend::Score(const std::shared_ptr<const LoadedModel>& model, const std::vector<Row>& rows,
                                          bool has_values) {
  if (model == nullptr) return {};
  absl::StatusOr<std::vector<RowScore>> scores = ScoreBatch(*engine_, model, rows, has_values);
  if (!scores.ok()) {
    ADD_FAILURE() << scores.status();
    return {};
  }
  return *std::move(scores);
}

void EveryBackend::ExpectReference(const std::shared_ptr<const Model>& model, const std::vector<Row>& rows,
                                   bool has_values) {
  ExpectSameBits(ReferenceScores(*model, rows), Score(Load(model), rows, has_values));
}

}  // namespace widelane::test
