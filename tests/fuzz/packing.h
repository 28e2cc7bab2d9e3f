// Packing of whatever passes CheckShape, and what must hold of the batch then.

#ifndef WIDELANE_TESTS_FUZZ_PACKING_H_
#define WIDELANE_TESTS_FUZZ_PACKING_H_

#include <cmath>
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

constexpr SlabOptions kFuzzSlab = {.rows = 256, .entries = 1024, .results = 1024};
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

// Sound whether the rows were taken or refused: backends trust a sealed batch blindly.
inline void CheckBatch(const BatchView& batch, uint32_t zero_feature) {
  FUZZ_CHECK(batch.row_begin[0] == 0);
  FUZZ_CHECK(batch.row_begin[batch.rows] == batch.entries);
  for (uint32_t r = 0; r < batch.rows; ++r) FUZZ_CHECK(batch.row_begin[r] <= batch.row_begin[r + 1]);
  for (uint32_t i = 0; i < batch.entries; ++i) {
    FUZZ_CHECK((batch.indices16 != nullptr ? batch.indices16[i] : batch.indices32[i]) <= zero_feature);
  }
  CheckLengths(batch);
  if (batch.row_max == nullptr) return;
  for (uint32_t r = 0; r < batch.rows; ++r) {
    FUZZ_CHECK(batch.row_max[r] >= 0 && std::isfinite(batch.row_max[r]));
    for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
      const float value = batch.values32 != nullptr ? batch.values32[i] : numeric::FromFloat16(batch.values16[i]);
      FUZZ_CHECK(std::fabs(value) <= batch.row_max[r]);
    }
  }
}

// Packs `csr` twice into one batch, as two requests would.
inline void PackAndCheck(const CsrView& csr, const CsrShape& shape, const std::shared_ptr<const LoadedModel>& model,
                         Values values) {
  static PlainMemory memory;
  static const std::unique_ptr<Slab> slab = *Slab::Create(kFuzzSlab, memory);
  slab->Open(model, {values, 0});
  for (int request = 0; request < 2; ++request) {
    RowCursor cursor(csr);
    while (cursor.row() < shape.rows) {
      const CsrShape fit = RowsThatFit(cursor, shape.rows - cursor.row(), slab->Room());
      if (fit.rows == 0) break;
      const auto segment = slab->Claim(fit.rows, fit.entries, kWantScores);
      FUZZ_CHECK(segment.has_value());
      const absl::StatusOr<uint64_t> packed = PackRows(csr, cursor, *slab, *segment);
      if (!packed.ok()) {
        FUZZ_CHECK(absl::IsInvalidArgument(packed.status()));
        break;
      }
      FUZZ_CHECK(*packed <= fit.entries);
    }
  }
  slab->Seal();
  CheckBatch(slab->view(), model->model().zero_feature());
}

// With every kind of model, and every kind of batch that holds the values.
inline void PackIntoEveryModel(const CsrView& csr, const CsrShape& shape) {
  static const std::shared_ptr<const LoadedModel> models[] = {
      FuzzModel(0, UnknownFeatures::kRefuse), FuzzModel(300, UnknownFeatures::kRefuse),
      FuzzModel(300, UnknownFeatures::kIgnore), FuzzModel(65'535, UnknownFeatures::kIgnore),
      FuzzModel(70'000, UnknownFeatures::kRefuse)};
  const Values narrowest = NarrowestValues(csr.values);
  for (const auto& model : models) {
    for (const Values values : {Values::kOnes, Values::kFloat16, Values::kFloat32}) {
      if (values >= narrowest) PackAndCheck(csr, shape, model, values);
    }
  }
}

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_FUZZ_PACKING_H_
