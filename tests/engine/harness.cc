#include "harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace widelane::test {
namespace {

uint16_t RoundToFloat16(float value) {
  // Nearest by search over the finite ones: slow, and free of any clever code of ours.
  const double magnitude = std::min(std::fabs(static_cast<double>(value)), 65504.0);
  uint16_t low = 0;
  uint16_t high = 0x7BFF;
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (DecodeFloat16(middle) <= magnitude ? low : high) = middle;
  }
  const uint16_t nearest = magnitude - DecodeFloat16(low) <= DecodeFloat16(high) - magnitude ? low : high;
  return static_cast<uint16_t>(nearest | (value < 0 ? 0x8000 : 0));
}

template <typename T>
void Store(AlignedBuffer& buffer, uint64_t element, T value) {
  std::memcpy(buffer.data() + element * sizeof(T), &value, sizeof(T));
}

void StoreWeight(AlignedBuffer& buffer, WeightType type, uint64_t element, float value, Random& random) {
  switch (type) {
    case WeightType::kFloat32:
      Store(buffer, element, value);
      break;
    case WeightType::kFloat16:
      Store(buffer, element, RoundToFloat16(value));
      break;
    case WeightType::kBfloat16:
      Store(buffer, element, static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
      break;
    case WeightType::kInt8:
      Store(buffer, element, static_cast<int8_t>(Between(random, -128, 127)));
      break;
  }
}

uint64_t Bits(double number) { return std::bit_cast<uint64_t>(number); }
uint64_t Bits(float number) { return std::bit_cast<uint32_t>(number); }

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <typename T>
std::string FirstDifference(const std::vector<T>& expected, const std::vector<T>& actual) {
  for (size_t k = 0; k < std::min(expected.size(), actual.size()); ++k) {
    if (Bits(expected[k]) != Bits(actual[k])) {
      char text[160];
      std::snprintf(text, sizeof(text), "output %zu: expected %a, is %a", k, static_cast<double>(expected[k]),
                    static_cast<double>(actual[k]));
      return text;
    }
  }
  return absl::StrCat(expected.size(), " numbers expected, ", actual.size(), " there");
}

}  // namespace

int64_t Between(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

float Wild(Random& random, double low, double high) {
  const double magnitude = std::pow(10.0, std::uniform_real_distribution<double>(low, high)(random));
  return static_cast<float>(Between(random, 0, 1) == 0 ? magnitude : -magnitude);
}

std::shared_ptr<const Model> MakeModel(uint32_t outputs, const std::vector<float>& weights, std::vector<double> bias,
                                       Link link) {
  ModelParts parts;
  parts.features = weights.size() / outputs;
  parts.outputs = outputs;
  parts.weights = *ModelParts::AllocateWeights(parts.features, outputs, WeightType::kFloat32);
  std::copy(weights.begin(), weights.end(), reinterpret_cast<float*>(parts.weights.data()));
  parts.bias = std::move(bias);
  parts.link = link;
  return *Model::Create(std::move(parts));
}

std::shared_ptr<const Model> R4(UnknownFeatures unknown_features) {
  const float weights[] = {0.5F, -1.25F, 2.0F, 0.25F};
  ModelParts parts;
  parts.features = 4;
  parts.weights = *ModelParts::AllocateWeights(4, 1, WeightType::kFloat32);
  std::memcpy(parts.weights.data(), weights, sizeof(weights));
  parts.bias = {-0.75};
  parts.link = Link::kSigmoid;
  parts.labels = {"0", "1"};
  parts.unknown_features = unknown_features;
  return *Model::Create(std::move(parts));
}

std::string Describe(const ModelSpec& spec) {
  return absl::StrCat(spec.features, " features, ", spec.outputs, " outputs, ", WeightTypeName(spec.type), ", ",
                      LinkName(spec.link), ", magnitudes 1e", spec.low, " to 1e", spec.high);
}

ModelParts RandomParts(const ModelSpec& spec, Random& random) {
  ModelParts parts;
  parts.features = spec.features;
  parts.outputs = spec.outputs;
  parts.weight_type = spec.type;
  parts.link = spec.link;
  parts.unknown_features = spec.unknown_features;
  parts.weights = *ModelParts::AllocateWeights(spec.features, spec.outputs, spec.type);
  for (uint64_t i = 0; i < spec.features * spec.outputs; ++i) {
    StoreWeight(parts.weights, spec.type, i, Wild(random, spec.low, spec.high), random);
  }
  for (uint32_t k = 0; k < spec.outputs; ++k) {
    if (spec.bias) parts.bias.push_back(static_cast<double>(Wild(random, spec.low, spec.high)) / 3.0);
    if (spec.type == WeightType::kInt8) parts.scale.push_back(std::fabs(Wild(random, spec.low - 2, spec.high - 2)));
  }
  return parts;
}

std::shared_ptr<const Model> RandomModel(const ModelSpec& spec, Random& random) {
  return *Model::Create(RandomParts(spec, random));
}

Row RandomRow(const RowSpec& spec, Random& random) {
  Row row;
  const int64_t length = Between(random, spec.shortest, spec.longest);
  for (int64_t i = 0; i < length; ++i) {
    const bool repeat = i > 0 && Between(random, 0, 9) == 0;
    row.features.push_back(repeat ? row.features[static_cast<size_t>(Between(random, 0, i - 1))]
                                  : static_cast<uint32_t>(Between(random, 0, static_cast<int64_t>(spec.features) - 1)));
    if (!spec.has_values) continue;
    const bool zero = Between(random, 0, 19) == 0;
    row.values.push_back(zero ? (i % 2 == 0 ? 0.0F : -0.0F) : Wild(random, spec.low, spec.high));
  }
  return row;
}

std::vector<Row> RandomRows(size_t count, const RowSpec& spec, Random& random) {
  std::vector<Row> rows;
  rows.reserve(count);
  for (size_t r = 0; r < count; ++r) rows.push_back(RandomRow(spec, random));
  return rows;
}

CsrArrays::CsrArrays(const std::vector<Row>& rows, bool has_values) : indptr_{0}, has_values_(has_values) {
  for (const Row& row : rows) {
    indices_.insert(indices_.end(), row.features.begin(), row.features.end());
    if (has_values && row.values.empty()) {
      values_.insert(values_.end(), row.features.size(), 1.0F);
    } else {
      values_.insert(values_.end(), row.values.begin(), row.values.end());
    }
    indptr_.push_back(static_cast<uint32_t>(indices_.size()));
  }
}

CsrView CsrArrays::view() const {
  CsrView view;
  view.indptr = TypedArray::Of(ElementType::kU32, indptr_.data(), indptr_.size());
  view.indices = TypedArray::Of(ElementType::kU32, indices_.data(), indices_.size());
  if (has_values_) view.values = TypedArray::Of(ElementType::kF32, values_.data(), values_.size());
  return view;
}

void BatchWaiter::OnBatchDone(SlabHandle slab) {
  const std::lock_guard<std::mutex> lock(mutex_);
  slab_ = std::move(slab);
  ++calls_;
  done_.notify_all();
}

SlabHandle BatchWaiter::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!done_.wait_for(lock, std::chrono::seconds(60), [this] { return slab_ != nullptr; })) {
    ADD_FAILURE() << "no batch was done within 60 s";
    return SlabHandle(nullptr, ReturnSlab{nullptr});
  }
  return std::move(slab_);
}

int BatchWaiter::calls() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return calls_;
}

std::vector<RowScore> ReadScores(const Slab& slab, uint32_t rows) {
  const uint32_t outputs = slab.model()->model().outputs();
  std::vector<RowScore> results(rows);
  for (uint32_t r = 0; r < rows; ++r) {
    if (slab.raw(r) != nullptr) results[r].raw.assign(slab.raw(r), slab.raw(r) + outputs);
    if (slab.scores(r) != nullptr) results[r].scores.assign(slab.scores(r), slab.scores(r) + outputs);
  }
  return results;
}

absl::StatusOr<std::vector<RowScore>> ScoreBatch(Engine& engine, const std::shared_ptr<const LoadedModel>& model,
                                                 const std::vector<Row>& rows, bool has_values, Where where) {
  const CsrArrays arrays(rows, has_values);
  const CsrView view = arrays.view();
  const absl::StatusOr<CsrShape> shape = CheckShape(view, engine.limits());
  if (!shape.ok()) return shape.status();
  SlabHandle slab = engine.TakeSlab();
  if (slab == nullptr) return absl::ResourceExhaustedError("no free slab");
  const Values narrowest = NarrowestValues(view.values);
  const Values with_values = narrowest == Values::kFloat16 ? Values::kFloat16 : Values::kFloat32;
  slab->Open(model, {.values = has_values ? with_values : Values::kOnes});
  RowCursor cursor(view);
  for (uint64_t part = 0; part < 3; ++part) {
    const uint64_t end = rows.size() * (part + 1) / 3;
    if (end == cursor.row()) continue;
    uint64_t entries = 0;
    for (uint64_t r = cursor.row(); r < end; ++r) entries += rows[r].features.size();
    const std::optional<Segment> segment = slab->Claim(end - cursor.row(), entries, kWantScores | kWantRaw);
    if (!segment.has_value()) return absl::ResourceExhaustedError("the rows do not fit into a slab");
    const absl::StatusOr<uint64_t> packed = PackRows(view, cursor, *slab, *segment);
    if (!packed.ok()) return packed.status();
  }
  slab->Seal();
  BatchWaiter waiter;
  engine.Submit(std::move(slab), waiter, where);
  slab = waiter.Wait();
  if (slab == nullptr) return absl::DeadlineExceededError("not done");
  if (!slab->status.ok()) return slab->status;
  return ReadScores(*slab, static_cast<uint32_t>(rows.size()));
}

void ExpectSameBits(const std::vector<RowScore>& expected, const std::vector<RowScore>& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t r = 0; r < expected.size(); ++r) {
    ASSERT_TRUE(SameBits(expected[r].raw, actual[r].raw))
        << "raw sums of row " << r << " differ: " << FirstDifference(expected[r].raw, actual[r].raw);
    ASSERT_TRUE(SameBits(expected[r].scores, actual[r].scores))
        << "scores of row " << r << " differ: " << FirstDifference(expected[r].scores, actual[r].scores);
  }
}

}  // namespace widelane::test
