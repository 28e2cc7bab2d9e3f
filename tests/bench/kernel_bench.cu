// Times each kernel on its own and checks its results in bits.
//
//   kernel_bench [check CASES SEED | time NAME_PART]      without arguments: 300 cases, then all timings
//
// Times are medians of 50 launches after 5, by events, over copies of the input that together pass 200 MB, so that no
// input is found in a cache. Exits with 1 when a bit is wrong.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cuda/score_call.h"
#include "kernel_check.h"
#include "numeric.h"

namespace widelane::cuda {
namespace {

constexpr uint32_t kWarmUps = 5;
constexpr uint32_t kTimes = 50;
constexpr size_t kInputBytes = 200'000'000;

struct Work {
  const char* name;
  ModelShape model;
  uint32_t rows;
  uint32_t mean;
  bool zipf;
  ValueKind values = ValueKind::kOnes;
  uint32_t best = 0;
  bool scores = true;               // else raw sums
  SumKind kind = SumKind::kNarrow;  // of one-output kernels only, where `forced`
  bool forced = false;
  uint32_t long_rows = 0;  // of 100,000 entries
  uint32_t contexts = 0;   // that rows share
};

HostBatch MakeBatch(const Work& work) {
  std::mt19937_64 random(1);
  const FeatureDraw draw(work.model.features, work.zipf);
  HostBatch batch;
  for (uint32_t r = 0; r < work.rows; ++r) {
    const bool is_long = work.long_rows > 0 && r % (work.rows / work.long_rows) == 17;
    const uint32_t length = is_long ? 100000 : work.mean;
    for (uint32_t i = 0; i < length; ++i) batch.indices.push_back(draw(random));
    batch.row_begin.push_back(static_cast<uint32_t>(batch.indices.size()));
  }
  batch.MakeValues(work.values, random);
  if (work.contexts > 0) batch.MakeContexts(work.contexts, work.model, random);
  return batch;
}

// The plan that LaunchScore would make, but of the kind that is forced.
cudaError_t LaunchForced(const Work& work, const ScoreArguments& a, cudaStream_t stream) {
  int multiprocessors = 0;
  Check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0), "multiprocessors");
  SumShape shape;
  shape.rows = a.rows;
  shape.entries = work.kind == SumKind::kShared ? 1U << 30 : a.entries;
  shape.weight_bytes = (uint64_t{a.features} + 1) * (a.weight_type == WeightType::kFloat32 ? 4 : 2);
  shape.weight_type = a.weight_type;
  shape.multiprocessors = static_cast<uint32_t>(multiprocessors);
  shape.shared_bytes = work.kind == SumKind::kShared ? 227 << 10 : 0;
  ScoreCall call;
  call.input = a;
  call.plan = PlanSums(shape);
  if (work.kind != SumKind::kShared) call.plan.kind = work.kind;
  if (work.kind == SumKind::kGroupsBy4 || work.kind == SumKind::kGroupsBy8) {
    call.plan.warp_rows = kWarp;
    call.plan.blocks = (a.rows + kBlockThreads - 1) / kBlockThreads;
  }
  call.row_limit = RowLimit(1);
  call.raw = a.raw;
  call.scores = a.scores;
  return LaunchOneOutput(call, stream);
}

cudaError_t Launch(const Work& work, const ScoreArguments& arguments, cudaStream_t stream) {
  return work.forced ? LaunchForced(work, arguments, stream) : LaunchScore(arguments, stream);
}

// Microseconds of each launch, sorted.
std::vector<float> Time(const Work& work, const std::vector<ScoreArguments>& inputs) {
  cudaEvent_t begin;
  cudaEvent_t end;
  Check(cudaEventCreate(&begin), "event");
  Check(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (uint32_t i = 0; i < kWarmUps + kTimes; ++i) {
    // A moment of work first, so that the host is ahead and only the kernel lies between the events.
    Check(cudaMemsetAsync(inputs[0].scratch, 0, inputs[0].scratch_bytes, nullptr), "memset");
    Check(cudaEventRecord(begin), "record");
    Check(Launch(work, inputs[i % inputs.size()], nullptr), "launch");
    Check(cudaEventRecord(end), "record");
    Check(cudaEventSynchronize(end), "kernel");
    float milliseconds = 0;
    Check(cudaEventElapsedTime(&milliseconds, begin, end), "time");
    if (i >= kWarmUps) times.push_back(milliseconds * 1000);
  }
  Check(cudaEventDestroy(begin), "event");
  Check(cudaEventDestroy(end), "event");
  std::sort(times.begin(), times.end());
  return times;
}

bool Run(const Work& work) {
  const MadeModel model(work.model);
  const HostBatch batch = MakeBatch(work);
  const bool narrow = work.model.features <= 0xFFFF;
  const RowLayout layout = work.long_rows > 0 ? RowLayout::kRowBegin
                           : work.mean < 256  ? RowLayout::kLengths8
                                              : RowLayout::kLengths16;
  std::vector<DeviceBatch> devices = {DeviceBatch(batch, narrow, layout, 0)};
  const size_t copies = std::min<size_t>(kInputBytes / devices[0].bytes() + 1, 40);
  while (devices.size() < copies) devices.emplace_back(batch, narrow, layout, 0);
  const LongRows long_rows(batch, work.model.outputs, 0, work.rows);
  const Results results(work.rows, work.model.outputs, work.best);
  const size_t scratch_bytes = ScratchBytes(std::max<size_t>(size_t{1} << 21, work.model.outputs));
  const DeviceArray<std::byte> scratch(scratch_bytes);
  std::vector<ScoreArguments> inputs;
  for (const DeviceBatch& device : devices) {
    ScoreArguments& a = inputs.emplace_back();
    model.Describe(a);
    device.Describe(0, work.rows, a);
    long_rows.Describe(a);
    results.Describe(work.best, a);
    if (work.scores) a.raw = nullptr;
    if (!work.scores) a.scores = nullptr;
    a.scratch = scratch.data();
    a.scratch_bytes = scratch_bytes;
  }
  const std::vector<float> times = Time(work, inputs);
  Results checked = results;
  if (work.scores) checked.raw = {};
  if (!work.scores) checked.scores = {};
  const uint32_t every = work.rows / (work.model.outputs > 1000 ? 20 : 300) + 1;
  const std::string difference = FirstDifference(model, batch, checked, work.best, 0, work.rows, every);
  std::printf("%-44s %9.1f %9.1f %9.1f %12zu  %s\n", work.name, times[times.size() / 2], times.front(), times.back(),
              devices[0].bytes(), difference.empty() ? "ok" : difference.c_str());
  std::fflush(stdout);
  return difference.empty();
}

std::vector<Work> AllWork() {
  const ModelShape text = {54000, 1, WeightType::kFloat32, Link::kSigmoid};
  ModelShape text16 = text;
  text16.type = WeightType::kFloat16;
  const ModelShape large = {100'000'000, 1, WeightType::kFloat32, Link::kSigmoid};
  const ModelShape middle = {1'000'000, 1, WeightType::kFloat32, Link::kSigmoid};
  const auto labels = [](uint32_t features, uint32_t outputs, WeightType type, Link link) {
    return ModelShape{features, outputs, type, link};
  };
  const ModelShape thousand = labels(54000, 1000, WeightType::kFloat32, Link::kSigmoid);
  const ModelShape thousand16 = labels(54000, 1000, WeightType::kFloat16, Link::kSigmoid);
  const ModelShape thousand8 = labels(54000, 1000, WeightType::kInt8, Link::kSigmoid);
  const ModelShape thousand_softmax = labels(54000, 1000, WeightType::kFloat32, Link::kSoftmax);
  const ModelShape many = labels(100000, 10000, WeightType::kFloat32, Link::kSigmoid);
  const ModelShape many16 = labels(100000, 10000, WeightType::kFloat16, Link::kSigmoid);
  const ModelShape debian = labels(56365, 58, WeightType::kFloat32, Link::kOneVsRest);
  const ModelShape sixtyfour = labels(56365, 64, WeightType::kFloat32, Link::kSigmoid);
  const ValueKind ones = ValueKind::kOnes;
  const SumKind shared = SumKind::kShared;
  const SumKind by4 = SumKind::kGroupsBy4;
  const SumKind by8 = SumKind::kGroupsBy8;
  const SumKind rows = SumKind::kWarpRows;
  return {
      {"54k uniform 200k x 40", text, 200000, 40, false},
      {"54k zipf 200k x 40", text, 200000, 40, true},
      {"54k uniform 200k x 40 float16 weights", text16, 200000, 40, false},
      {"54k uniform 200k x 40 float16 values", text, 200000, 40, false, ValueKind::kFloat16},
      {"54k uniform 200k x 40 float32 values", text, 200000, 40, false, ValueKind::kFloat32},
      {"54k uniform 200k x 40 shared", text, 200000, 40, false, ones, 0, true, shared, true},
      {"54k uniform 200k x 40 by 8", text, 200000, 40, false, ones, 0, true, by8, true},
      {"54k uniform 200k x 40 by 4", text, 200000, 40, false, ones, 0, true, by4, true},
      {"54k uniform 200k x 40 warp rows", text, 200000, 40, false, ones, 0, true, rows, true},
      {"54k zipf 200k x 40 by 8", text, 200000, 40, true, ones, 0, true, by8, true},
      {"54k uniform 100k x 40 shared", text, 100000, 40, false, ones, 0, true, shared, true},
      {"54k uniform 100k x 40 by 8", text, 100000, 40, false, ones, 0, true, by8, true},
      {"54k uniform 50k x 40 shared", text, 50000, 40, false, ones, 0, true, shared, true},
      {"54k uniform 50k x 40 by 8", text, 50000, 40, false, ones, 0, true, by8, true},
      {"54k uniform 50k x 40 warp rows", text, 50000, 40, false, ones, 0, true, rows, true},
      {"54k uniform 20k x 40 shared", text, 20000, 40, false, ones, 0, true, shared, true},
      {"54k uniform 20k x 40 by 8", text, 20000, 40, false, ones, 0, true, by8, true},
      {"54k uniform 20k x 40 warp rows", text, 20000, 40, false, ones, 0, true, rows, true},
      {"54k uniform 10k x 40", text, 10000, 40, false},
      {"54k uniform 1k x 40", text, 1000, 40, false},
      {"54k uniform 1 x 40", text, 1, 40, false},
      {"54k uniform 200k x 11", text, 200000, 11, false},
      {"54k uniform 200k x 11 by 4", text, 200000, 11, false, ones, 0, true, by4, true},
      {"1M zipf 200k x 39", middle, 200000, 39, true},
      {"1M zipf 200k x 39 by 4", middle, 200000, 39, true, ones, 0, true, by4, true},
      {"100M zipf 200k x 40", large, 200000, 40, true},
      {"100M zipf 200k x 40 by 4", large, 200000, 40, true, ones, 0, true, by4, true},
      {"100M zipf 200k x 40 warp rows", large, 200000, 40, true, ones, 0, true, rows, true},
      {"100M zipf 20k x 214", large, 20000, 214, true},
      {"54k 100k x 40 with 20 rows of 100,000", text, 100000, 40, false, ones, 0, true, by8, false, 20},
      {"54k uniform 200k x 40 with 1,000 contexts", text, 200000, 40, false, ones, 0, true, rows, false, 0, 1000},
      {"54k uniform 200k x 11 with 1,000 contexts", text, 200000, 11, false, ones, 0, true, rows, false, 0, 1000},
      {"54k uniform 1k x 40 with 10 contexts", text, 1000, 40, false, ones, 0, true, rows, false, 0, 10},
      {"54k x 2 outputs 200k x 40", labels(54000, 2, WeightType::kFloat32, Link::kSoftmax), 200000, 40, false},
      {"54k x 20 outputs 50k x 40", labels(54000, 20, WeightType::kFloat32, Link::kSigmoid), 50000, 40, false},
      {"54k x 20 outputs 50k x 40 best 3", labels(54000, 20, WeightType::kFloat32, Link::kSigmoid), 50000, 40, false,
       ones, 3},
      {"56k x 58 outputs 100k x 11 best 1 ovr", debian, 100000, 11, true, ones, 1},
      {"56k x 64 outputs 100k x 11", sixtyfour, 100000, 11, true},
      {"56k x 64 outputs 100k x 11 best 10", sixtyfour, 100000, 11, true, ones, 10},
      {"54k x 1000 10k x 40 raw", thousand, 10000, 40, true, ones, 0, false},
      {"54k x 1000 10k x 40 scores", thousand, 10000, 40, true},
      {"54k x 1000 10k x 40 best 10", thousand, 10000, 40, true, ones, 10},
      {"54k x 1000 10k x 40 scores with 100 contexts", thousand, 10000, 40, true, ones, 0, true, rows, false, 0, 100},
      {"54k x 1000 10k x 40 best 10 with 100 contexts", thousand, 10000, 40, true, ones, 10, true, rows, false, 0, 100},
      {"54k x 1000 10k x 40 best 128", thousand, 10000, 40, true, ones, 128},
      {"54k x 1000 10k x 40 best 10 softmax", thousand_softmax, 10000, 40, true, ones, 10},
      {"54k x 1000 float16 10k x 40 scores", thousand16, 10000, 40, true},
      {"54k x 1000 float16 10k x 40 best 10", thousand16, 10000, 40, true, ones, 10},
      {"54k x 1000 float16 10k x 40 best 10 uniform", thousand16, 10000, 40, false, ones, 10},
      {"54k x 1000 int8 10k x 40 best 10", thousand8, 10000, 40, true, ones, 10},
      {"54k x 1000 1k x 40 best 10", thousand, 1000, 40, true, ones, 10},
      {"54k x 1000 10 x 40 best 10", thousand, 10, 40, true, ones, 10},
      {"100k x 10000 1024 x 64 raw", many, 1024, 64, true, ones, 0, false},
      {"100k x 10000 1024 x 64 best 10", many, 1024, 64, true, ones, 10},
      {"100k x 10000 float16 1024 x 64 raw", many16, 1024, 64, true, ones, 0, false},
      {"100k x 10000 float16 1024 x 64 best 10", many16, 1024, 64, true, ones, 10},
  };
}

bool RunAll(const char* part) {
  std::printf("%-44s %9s %9s %9s %12s  %s\n", "name", "median_us", "min_us", "max_us", "bytes", "check");
  bool right = true;
  for (const Work& work : AllWork()) {
    if (std::strstr(work.name, part) != nullptr) right = Run(work) && right;
  }
  return right;
}

bool Main(int argc, char** argv) {
  Check(PrepareKernels(), "PrepareKernels");
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "time") return RunAll(argc > 2 ? argv[2] : "");
  const uint32_t cases = argc > 2 ? static_cast<uint32_t>(std::atoi(argv[2])) : 300;
  const bool right = CheckCases(argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1, cases) == 0;
  return what == "check" ? right : RunAll("") && right;
}

}  // namespace
}  // namespace widelane::cuda

int main(int argc, char** argv) { return widelane::cuda::Main(argc, argv) ? 0 : 1; }
