// Packing of whatever passes CheckShape, and what must hold of the batch then.

#ifndef WIDELANE_TESTS_FUZZ_PACKING_H_
#define WIDELANE_TESTS_FUZZ_PACKING_H_

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "engine/src/backend.h"
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
  return std::make_shared<LoadedModel>(*Model::Create(std::move(parts)), std::vector<std::unique_ptr<ResidentModel>>());
}

// Sound whether the rows were taken or refused: backends trust a sealed batch blindly.
inline void CheckBatch(const BatchView& batch, uint32_t zero_feature) {
  FUZZ_CHECK(batch.row_begin[0] == 0);
  FUZZ_CHECK(batch.row_begin[batch.rows] == batch.entries);
  for (uint32_t r = 0; r < batch.rows; ++r) FUZZ_CHECK(batch.row_begin[r] <= batch.row_begin[r + 1]);
  for (uint32_t i = 0; i < batch.entries; ++i) {
    FUZZ_CHECK((batch.indices16 != nullptr ? batch.indices16[i] : batch.indices32[i]) <= zero_feature);
  }
  if (batch.values == nullptr) return;
  for (uint32_t r = 0; r < batch.rows; ++r) {
    FUZZ_CHECK(batch.row_max[r] >= 0 && std::isfinite(batch.row_max[r]));
    for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
      FUZZ_CHECK(std::fabs(batch.values[i]) <= batch.row_max[r]);
    }
  }
}

// Packs `csr` twice into one batch, as two requests would.
inline void PackAndCheck(const CsrView& csr, const CsrShape& shape, const std::shared_ptr<const LoadedModel>& model,
                         bool has_values) {
  static PlainMemory memory;
  static const std::unique_ptr<Slab> slab = *Slab::Create(kFuzzSlab, memory);
  slab->Open(model, has_values);
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

// With every kind of model, with and without values where the rows allow it.
inline void PackIntoEveryModel(const CsrView& csr, const CsrShape& shape) {
  static const std::shared_ptr<const LoadedModel> models[] = {
      FuzzModel(0, UnknownFeatures::kRefuse), FuzzModel(300, UnknownFeatures::kRefuse),
      FuzzModel(300, UnknownFeatures::kIgnore), FuzzModel(65'535, UnknownFeatures::kIgnore),
      FuzzModel(70'000, UnknownFeatures::kRefuse)};
  for (const auto& model : models) {
    PackAndCheck(csr, shape, model, true);
    if (!csr.values.has_value() || AllOnes(*csr.values)) PackAndCheck(csr, shape, model, false);
  }
}

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_FUZZ_PACKING_H_
