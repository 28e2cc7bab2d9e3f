#include "client/cli/bench_data.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "client/cli/bench_draw.h"
#include "widelane/engine/usable_cores.h"

namespace widelane::cli {
namespace {

// Each kind of number has its own stream.
enum Stream : uint64_t { kWeights = 1, kIndices = 2, kContexts = 3, kValues = 4 };

uint64_t SeedOf(uint64_t seed, Stream stream) { return RandomBits(seed, stream); }

// Calls body(begin, end) for parts of [0, count), on all usable cores.
void InParallel(uint64_t count, const std::function<void(uint64_t, uint64_t)>& body) {
  constexpr uint64_t kLeast = 4096;
  const uint64_t parts = std::clamp<uint64_t>(count / kLeast, 1, UsableCores());
  std::vector<std::thread> threads;
  for (uint64_t p = 1; p < parts; ++p) threads.emplace_back(body, count * p / parts, count * (p + 1) / parts);
  body(0, count / parts);
  for (std::thread& thread : threads) thread.join();
}

// Which of 64 random bits stay, and which are set, so that every number in them lies between 2^-5 and 2^-3: sign, last
// bit of the exponent and mantissa are random. int8 takes any.
struct Pattern {
  uint64_t keep;
  uint64_t set;
};
Pattern PatternOf(WeightType type) {
  switch (type) {
    case WeightType::kFloat32:
      return {0x80FFFFFF80FFFFFFU, 0x3D0000003D000000U};
    case WeightType::kFloat16:
      return {0x87FF87FF87FF87FFU, 0x2800280028002800U};
    case WeightType::kBfloat16:
      return {0x80FF80FF80FF80FFU, 0x3D003D003D003D00U};
    case WeightType::kInt8:
      return {~uint64_t{0}, 0};
  }
  return {};
}

void FillWeights(WeightType type, uint64_t seed, std::byte* data, size_t bytes) {
  const Pattern pattern = PatternOf(type);
  constexpr size_t kWord = sizeof(uint64_t);
  InParallel((bytes + kWord - 1) / kWord, [&](uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i) {
      const uint64_t word = (RandomBits(seed, i) & pattern.keep) | pattern.set;
      std::memcpy(data + i * kWord, &word, std::min(kWord, bytes - i * kWord));
    }
  });
}

void FillRow(const BenchProfile& profile, const FeatureDraw& draw, uint64_t seed, uint64_t row, MadeRows& out) {
  const uint64_t begin = out.indptr[row];
  const uint64_t entries = out.indptr[row + 1] - begin;
  const uint64_t contexts = SeedOf(seed, kContexts);
  const uint64_t indices = SeedOf(seed, kIndices);
  for (uint64_t i = 0; i < entries; ++i) {
    const double unit = i < profile.context ? RandomUnit(contexts, row / profile.context_rows * profile.context + i)
                                            : RandomUnit(indices, begin + i);
    out.indices[begin + i] = draw.At(unit);
  }
}

// In [0.5, 1.5) with as many bits as the type has there.
float ValueOf(Values kind, uint64_t bits) {
  if (kind == Values::kFloat16) return 0.5F + static_cast<float>(bits >> 54) * 0x1p-10F;
  return 0.5F + static_cast<float>(bits >> 41) * 0x1p-23F;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Model>> MakeModel(const BenchProfile& profile, uint64_t seed, Link link) {
  absl::StatusOr<AlignedBuffer> weights =
      ModelParts::AllocateWeights(profile.features, profile.outputs, profile.weights);
  if (!weights.ok()) return weights.status();
  FillWeights(profile.weights, SeedOf(seed, kWeights), weights->data(), weights->size());
  ModelParts parts;
  parts.features = profile.features;
  parts.outputs = profile.outputs;
  parts.weight_type = profile.weights;
  parts.weights = *std::move(weights);
  parts.bias.assign(profile.outputs, -0.5);
  if (profile.weights == WeightType::kInt8) parts.scale.assign(profile.outputs, 0x1p-10F);
  parts.link = link;
  parts.source = "widelane bench";
  return Model::Create(std::move(parts));
}

CsrView MadeRows::View(uint64_t rows) const {
  const size_t entries = indptr[rows];
  CsrView view;
  view.indptr = TypedArray::Of(ElementType::kU32, indptr.data(), rows + 1);
  view.indices = TypedArray::Of(ElementType::kU32, indices.data(), entries);
  if (!values.empty()) view.values = TypedArray::Of(ElementType::kF32, values.data(), entries);
  return view;
}

MadeRows MakeRows(const BenchProfile& profile, uint64_t rows, uint64_t seed) {
  MadeRows made;
  made.indptr.resize(rows + 1);
  for (uint64_t r = 0; r < rows; ++r) made.indptr[r + 1] = made.indptr[r] + profile.EntriesOfRow(r);
  const uint64_t entries = made.indptr[rows];
  made.indices.resize(entries);
  const FeatureDraw draw(profile.features, profile.zipf);
  InParallel(rows, [&](uint64_t begin, uint64_t end) {
    for (uint64_t r = begin; r < end; ++r) FillRow(profile, draw, seed, r, made);
  });
  if (profile.values == Values::kOnes) return made;
  made.values.resize(entries);
  const uint64_t values = SeedOf(seed, kValues);
  InParallel(entries, [&](uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i) made.values[i] = ValueOf(profile.values, RandomBits(values, i));
  });
  return made;
}

}  // namespace widelane::cli
