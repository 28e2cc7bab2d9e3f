#include <algorithm>
#include <cstdio>
#include <cstring>

#include "kernel_check.h"

namespace widelane::cuda {
namespace {

constexpr uint32_t kMaxBest = 128;  // as in route.h, which is C++20

// What a case is made of.
struct Case {
  ModelShape model;
  uint32_t rows = 0;
  uint32_t first_row = 0;  // the call leaves those before out
  uint32_t mean = 0;
  bool long_row = false;
  ValueKind values = ValueKind::kOnes;
  RowLayout layout = RowLayout::kLengths8;
  bool narrow = true;
  uint32_t slack = 0;
  uint32_t contexts = 0;  // lines of sums, of which each row gets one
  uint32_t best = 0;
  bool little_scratch = false;
  uint32_t parts = 0;     // > 0: cut by features, sums added up afterwards
  bool from_raw = false;  // scores or best outputs from raw sums of an earlier call
};

template <typename T, size_t kCount>
T OneOf(const T (&from)[kCount], std::mt19937_64& random) {
  return from[random() % kCount];
}

Case MakeCase(std::mt19937_64& random) {
  static constexpr uint32_t kOutputs[] = {1,  1,  1,   1,   2,   3,   7,   16,   20,   32,   33,  50,
                                          64, 65, 100, 132, 254, 512, 777, 1000, 1026, 2056, 3001};
  static constexpr uint32_t kRows[] = {1, 5, 32, 33, 100, 300};
  static constexpr uint32_t kManyRows[] = {31, 1000, 100000, 150000};  // enough for all kernels of one output
  static constexpr uint32_t kMeans[] = {0, 1, 5, 11, 25, 40, 60, 130};
  static constexpr uint32_t kUniform[] = {1, 7, 40, 300};
  static constexpr uint32_t kBests[] = {1, 2, 5, 10, 16, 17, 40, 128};
  static constexpr uint32_t kLines[] = {1, 2, 65, 1000};
  static constexpr Link kLinks[] = {Link::kIdentity, Link::kSigmoid, Link::kSoftmax, Link::kOneVsRest, Link::kExp};
  static constexpr WeightType kTypes[] = {WeightType::kFloat32, WeightType::kFloat16, WeightType::kBfloat16,
                                          WeightType::kInt8};
  Case c;
  c.model.outputs = OneOf(kOutputs, random);
  const bool one = c.model.outputs == 1;
  c.model.features = one && random() % 2 == 0 ? 54000 : 1 + static_cast<uint32_t>(random() % 1000);
  c.model.type = OneOf(kTypes, random);
  c.model.link = OneOf(kLinks, random);
  if (one && (c.model.link == Link::kSoftmax || c.model.link == Link::kOneVsRest)) c.model.link = Link::kSigmoid;
  c.model.split = random() % 5 != 0;
  c.model.ties = random() % 4 == 0;
  c.rows = one && random() % 3 == 0 ? OneOf(kManyRows, random) : OneOf(kRows, random);
  c.first_row = random() % 3 == 0 && c.rows > 32 ? 32 : 0;
  c.mean = OneOf(kMeans, random);
  c.long_row = random() % 4 == 0;
  c.values = static_cast<ValueKind>(random() % 3);
  c.narrow = random() % 2 == 0;
  c.slack = static_cast<uint32_t>(random() % 4);
  if (random() % 2 == 0) c.best = std::min({OneOf(kBests, random), c.model.outputs, kMaxBest});
  c.little_scratch = random() % 3 == 0;
  if (random() % 6 == 0) c.parts = 1 + static_cast<uint32_t>(random() % 3);
  c.from_raw = c.parts == 0 && random() % 6 == 0;
  const bool fits8 = !c.long_row && c.mean <= 100;
  c.layout = fits8 ? static_cast<RowLayout>(random() % 3) : RowLayout::kLengths16;
  if (c.long_row && random() % 2 == 0) c.layout = RowLayout::kRowBegin;
  if (!c.long_row && random() % 4 == 0) {
    c.layout = RowLayout::kUniform;
    c.mean = OneOf(kUniform, random);
  }
  if (random() % 2 == 0) c.contexts = OneOf(kLines, random);
  return c;
}

HostBatch MakeBatch(const Case& c, std::mt19937_64& random) {
  HostBatch batch;
  const FeatureDraw draw(c.model.features, false);
  const uint32_t long_at = c.rows - 1 - static_cast<uint32_t>(random() % std::min(c.rows, 40U));
  for (uint32_t r = 0; r < c.rows; ++r) {
    uint32_t length = c.mean;
    if (c.layout != RowLayout::kUniform) length = static_cast<uint32_t>(random() % (2 * c.mean + 1));
    if (c.long_row && r == long_at) length = 250 + static_cast<uint32_t>(random() % 5000);
    for (uint32_t i = 0; i < length; ++i) batch.indices.push_back(random() % 50 == 0 ? c.model.features : draw(random));
    batch.row_begin.push_back(static_cast<uint32_t>(batch.indices.size()));
  }
  batch.MakeValues(c.values, random);
  if (c.contexts > 0) batch.MakeContexts(c.contexts, c.model, random);
  return batch;
}

// The sums of `parts` models of a few features each.
void ScoreParts(const MadeModel& model, const Case& c, ScoreArguments arguments, cudaStream_t stream) {
  std::vector<DeviceArray<int64_t>> sums;
  std::vector<const int64_t*> pointers;
  std::vector<DeviceArray<std::byte>> weights;
  ScoreArguments part = arguments;
  part.raw = nullptr;
  part.scores = nullptr;
  part.best = 0;
  part.best_outputs = nullptr;
  part.best_scores = nullptr;
  for (uint32_t p = 0; p < c.parts; ++p) {
    const auto first = static_cast<uint32_t>(uint64_t{c.model.features} * p / c.parts);
    const auto end = static_cast<uint32_t>(uint64_t{c.model.features} * (p + 1) / c.parts);
    weights.emplace_back(model.Part(first, end - first));
    sums.emplace_back(size_t{c.rows} * c.model.outputs);
    part.weights = weights.back().data();
    part.first_feature = first;
    part.features = end - first;
    part.partial = sums.back().data();
    Check(LaunchScore(part, stream), "LaunchScore of a part");
    pointers.push_back(part.partial);
  }
  Check(LaunchFinishPartial(arguments, pointers.data(), c.parts, stream), "LaunchFinishPartial");
}

void ScoreFromRaw(const Case& c, ScoreArguments arguments, cudaStream_t stream) {
  const DeviceArray<double> raw(size_t{c.rows} * c.model.outputs);
  ScoreArguments first = arguments;
  first.raw = raw.data();
  first.scores = nullptr;
  first.best = 0;
  first.best_outputs = nullptr;
  first.best_scores = nullptr;
  Check(LaunchScore(first, stream), "LaunchScore of raw sums");
  Check(LaunchFinishRaw(arguments, raw.data(), stream), "LaunchFinishRaw");
  Check(cudaStreamSynchronize(stream), "LaunchFinishRaw");
}

std::string Differing(const char* what, uint32_t row, uint32_t at, double expected, double found) {
  char text[200];
  std::snprintf(text, sizeof(text), "%s of row %u at %u: %.17g, not %.17g", what, row, at, found, expected);
  return text;
}

// Compares bits.
template <typename T>
std::string Compare(const char* what, uint32_t row, const std::vector<T>& expected, const T* found) {
  for (uint32_t k = 0; k < expected.size(); ++k) {
    if (std::memcmp(&expected[k], found + k, sizeof(T)) == 0) continue;
    return Differing(what, row, k, static_cast<double>(expected[k]), static_cast<double>(found[k]));
  }
  return "";
}

std::string RunCase(const Case& c, std::mt19937_64& random) {
  const MadeModel model(c.model);
  const HostBatch batch = MakeBatch(c, random);
  const DeviceBatch device(batch, c.narrow, c.layout, c.slack);
  const LongRows long_rows(batch, c.model.outputs, c.first_row, c.rows - c.first_row);
  const Results results(c.rows, c.model.outputs, c.best);
  const size_t scratch_for = c.little_scratch ? c.model.outputs : size_t{c.rows} * c.model.outputs;
  const DeviceArray<std::byte> scratch(ScratchBytes(scratch_for));

  ScoreArguments arguments;
  model.Describe(arguments);
  device.Describe(c.first_row, c.rows - c.first_row, arguments);
  long_rows.Describe(arguments);
  results.Describe(c.best, arguments);
  arguments.scratch = scratch.data();
  arguments.scratch_bytes = ScratchBytes(scratch_for);
  if (c.parts > 0) {
    ScoreParts(model, c, arguments, nullptr);
  } else if (c.from_raw) {
    ScoreFromRaw(c, arguments, nullptr);
  } else {
    Check(LaunchScore(arguments, nullptr), "LaunchScore");
  }
  Check(cudaDeviceSynchronize(), "kernels");
  // Enough rows to see each lane of a warp, few enough for the host.
  const uint32_t every = c.rows > 1000 ? 97 : 1;
  return FirstDifference(model, batch, results, c.best, c.first_row, c.rows, every);
}

void Print(uint32_t number, const Case& c, const std::string& difference) {
  std::printf(
      "case %u: outputs %u features %u type %d link %d split %d ties %d rows %u from %u mean %u long %d values %d "
      "layout %d narrow %d slack %u contexts %u best %u little scratch %d parts %u from raw %d: %s\n",
      number, c.model.outputs, c.model.features, static_cast<int>(c.model.type), static_cast<int>(c.model.link),
      c.model.split, c.model.ties, c.rows, c.first_row, c.mean, c.long_row, static_cast<int>(c.values),
      static_cast<int>(c.layout), c.narrow, c.slack, c.contexts, c.best, c.little_scratch, c.parts, c.from_raw,
      difference.c_str());
}

}  // namespace

Results::Results(uint32_t rows, uint32_t outputs, uint32_t best) {
  if (best > 0) {
    best_outputs = DeviceArray<uint32_t>(size_t{rows} * best);
    best_scores = DeviceArray<float>(size_t{rows} * best);
  } else {
    raw = DeviceArray<double>(size_t{rows} * outputs);
    scores = DeviceArray<float>(size_t{rows} * outputs);
  }
}

void Results::Describe(uint32_t best, ScoreArguments& arguments) const {
  arguments.raw = raw.data();
  arguments.scores = scores.data();
  arguments.best = best;
  arguments.best_outputs = best_outputs.data();
  arguments.best_scores = best_scores.data();
}

std::string FirstDifference(const MadeModel& model, const HostBatch& batch, const Results& results, uint32_t best,
                            uint32_t first, uint32_t end, uint32_t every) {
  const size_t outputs = model.shape().outputs;
  const std::vector<double> raw = results.raw.ToHost();
  const std::vector<float> scores = results.scores.ToHost();
  const std::vector<uint32_t> best_outputs = results.best_outputs.ToHost();
  const std::vector<float> best_scores = results.best_scores.ToHost();
  for (uint32_t row = first; row < end; row += every) {
    const RowResult expected = Reference(model, batch, row, best);
    std::string difference;
    if (best > 0) {
      difference = Compare("best output", row, expected.best_outputs, best_outputs.data() + size_t{row} * best);
      if (!difference.empty()) return difference;
      difference = Compare("best score", row, expected.best_scores, best_scores.data() + size_t{row} * best);
      if (!difference.empty()) return difference;
    }
    if (!raw.empty()) difference = Compare("raw sum", row, expected.raw, raw.data() + row * outputs);
    if (!difference.empty()) return difference;
    if (!scores.empty()) difference = Compare("score", row, expected.scores, scores.data() + row * outputs);
    if (!difference.empty()) return difference;
  }
  return "";
}

uint32_t CheckCases(uint64_t seed, uint32_t cases) {
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < cases; ++i) {
    std::mt19937_64 random(seed + i);
    const Case c = MakeCase(random);
    const std::string difference = RunCase(c, random);
    if (difference.empty()) continue;
    ++wrong;
    Print(i, c, difference);
  }
  std::printf("%u of %u cases differ (seed %llu)\n", wrong, cases, static_cast<unsigned long long>(seed));
  return wrong;
}

}  // namespace widelane::cuda
