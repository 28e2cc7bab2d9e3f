// Packing of whatever passes CheckShape, and what must hold of the batch then.

#ifndef WIDELANE_TESTS_FUZZ_PACKING_H_
#define WIDELANE_TESTS_FUZZ_PACKING_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/src/backend.h"
#include "engine/src/numeric.h"
#include "tests/engine/plain_memory.h"
#include "tests/fuzz/check.h"
#include "widelane/engine/engine.h"
#include "widelane/engine/slab.h"

namespace widelane::test {

constexpr SlabOptions kFuzzSlab = {.rows = 256, .entries = 1024, .results = 1024, .context_sums = 64};
constexpr CsrLimits kFuzzLimits = {.max_rows = 256, .max_entries = 1024, .max_row_entries = 900};

inline std::shared_ptr<const LoadedModel> FuzzModel(uint64_t features, UnknownFeatures unknown_features) {
  ModelParts parts;
  parts.features = features;
  parts.weight_type = WeightType::kInt8;
  parts.weights = *ModelParts::AllocateWeights(features, 1, WeightType::kInt8);
  std::fill_n(parts.weights.data(), features, std::byte{1});
  parts.scale = {1.0F};
  parts.unknown_features = unknown_features;
  return std::make_shared<LoadedModel>(*Model::Create(std::move(parts)), std::vector<std::unique_ptr<ResidentModel>>(),
                                       false);
}

// Each row's length, and where each group of rows begins, say the same as the rows' offsets.
inline void CheckLengths(const BatchView& batch) {
  for (uint32_t r = 0; r < batch.rows; ++r) {
    const uint32_t length = batch.row_begin[r + 1] - batch.row_begin[r];
    FUZZ_CHECK(length <= batch.longest_row);
    if (batch.lengths8 != nullptr) FUZZ_CHECK(batch.lengths8[r] == length);
    if (batch.lengths16 != nullptr) FUZZ_CHECK(batch.lengths16[r] == length);
    if (r % kGroupRows == 0) FUZZ_CHECK(batch.group_begin[r / kGroupRows] == batch.row_begin[r]);
  }
}

inline void CheckContextLines(const BatchView& batch) {
  if (batch.context_line == nullptr) return;
  for (uint32_t r = 0; r < batch.rows; ++r) FUZZ_CHECK(batch.context_line[r] < batch.context_lines);
}

// Sound whether the rows were taken or refused: backends trust a sealed batch blindly.
inline void CheckBatch(const BatchView& batch, uint32_t zero_feature) {
  FUZZ_CHECK(batch.row_begin[0] == 0);
  FUZZ_CHECK(batch.row_begin[batch.rows] == batch.entries);
  for (uint32_t r = 0; r < batch.rows; ++r) FUZZ_CHECK(batch.row_begin[r] <= batch.row_begin[r + 1]);
  for (uint32_t i = 0; i < batch.entries; ++i) {
    FUZZ_CHECK((batch.indices16 != nullptr ? batch.indices16[i] : batch.indices32[i]) <= zero_feature);
  }
  CheckLengths(batch);
  CheckContextLines(batch);
  if (batch.row_max == nullptr) return;
  for (uint32_t r = 0; r < batch.rows; ++r) {
    FUZZ_CHECK(batch.row_max[r] >= 0 && std::isfinite(batch.row_max[r]));
    for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
      const float value = batch.values32 != nullptr ? batch.values32[i] : numeric::FromFloat16(batch.values16[i]);
      FUZZ_CHECK(std::fabs(value) <= batch.row_max[r]);
    }
  }
}

// What was packed, in one number.
class Digest {
 public:
  template <typename T>
  void Add(const T* numbers, size_t count) {
    if (numbers == nullptr) return;
    const auto* const bytes = reinterpret_cast<const unsigned char*>(numbers);
    for (size_t i = 0; i < count * sizeof(T); ++i) value_ = (value_ ^ bytes[i]) * 1099511628211U;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 14695981039346656037U;
};

inline uint64_t DigestOf(const BatchView& batch) {
  Digest digest;
  digest.Add(batch.row_begin, batch.rows + 1);
  digest.Add(batch.indices16, batch.entries);
  digest.Add(batch.indices32, batch.entries);
  digest.Add(batch.values16, batch.entries);
  digest.Add(batch.values32, batch.entries);
  digest.Add(batch.row_max, batch.rows);
  digest.Add(batch.context_line, batch.context_line == nullptr ? 0 : batch.rows);
  digest.Add(batch.context_sums, batch.context_lines);  // the models have one output
  return digest.value();
}

// Packs `csr` twice into one batch, as two requests would; 0 when its contexts are refused.
inline uint64_t PackAndCheck(const CsrView& csr, const CsrShape& shape, const RowContexts* contexts,
                             const std::shared_ptr<const LoadedModel>& model, Values values) {
  static PlainMemory memory;
  static const std::unique_ptr<Slab> slab = *Slab::Create(kFuzzSlab, memory);
  static ContextSums sums;
  sums.Reset();
  if (contexts != nullptr) {
    const absl::Status status = sums.Compute(model->model(), csr, *contexts, values, kFuzzSlab.context_sums);
    FUZZ_CHECK(status.ok() || absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status));
    if (!status.ok()) return 0;
  }
  slab->Open(model, {values, 0, contexts != nullptr});
  for (int request = 0; request < 2; ++request) {
    RowCursor cursor(csr);
    while (cursor.row() < shape.rows) {
      const CsrShape fit = RowsThatFit(cursor, shape.rows - cursor.row(), slab->Room());
      const uint32_t lines = contexts == nullptr ? 0 : sums.lines();
      if (fit.rows == 0 || lines > slab->RoomForLines()) break;
      const auto segment = slab->Claim(fit.rows, fit.entries, kWantScores, lines);
      FUZZ_CHECK(segment.has_value());
      const absl::StatusOr<uint64_t> packed =
          PackRows(csr, cursor, *slab, *segment, contexts == nullptr ? nullptr : &sums);
      if (!packed.ok()) {
        FUZZ_CHECK(absl::IsInvalidArgument(packed.status()));
        break;
      }
      FUZZ_CHECK(*packed <= fit.entries);
    }
  }
  slab->Seal();
  CheckBatch(slab->view(), model->model().zero_feature());
  return DigestOf(slab->view());
}

// With every kind of model, and every kind of batch that holds the values. A digest of all batches.
inline uint64_t PackIntoEveryModel(const CsrView& csr, const CsrShape& shape, const RowContexts* contexts = nullptr) {
  static const std::shared_ptr<const LoadedModel> models[] = {
      FuzzModel(0, UnknownFeatures::kRefuse), FuzzModel(300, UnknownFeatures::kRefuse),
      FuzzModel(300, UnknownFeatures::kIgnore), FuzzModel(65'535, UnknownFeatures::kIgnore),
      FuzzModel(70'000, UnknownFeatures::kRefuse)};
  Values narrowest = NarrowestValues(csr.values);
  if (contexts != nullptr) narrowest = std::max(narrowest, NarrowestValues(contexts->features.values));
  Digest digest;
  for (const auto& model : models) {
    for (const Values values : {Values::kOnes, Values::kFloat16, Values::kFloat32}) {
      if (values < narrowest) continue;
      const uint64_t batch = PackAndCheck(csr, shape, contexts, model, values);
      digest.Add(&batch, 1);
    }
  }
  return digest.value();
}

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_FUZZ_PACKING_H_
