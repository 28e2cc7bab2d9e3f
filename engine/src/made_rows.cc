#include "made_rows.h"

#include <numeric>
#include <utility>

namespace widelane {

MadeRows::MadeRows(const Model& model, std::vector<uint32_t> lengths) : lengths_(std::move(lengths)) {
  const uint64_t entries = std::accumulate(lengths_.begin(), lengths_.end(), uint64_t{0});
  indices_.resize(entries);
  halves_.resize(entries);
  floats_.resize(entries);
  uint64_t random = 1;
  for (uint64_t i = 0; i < entries; ++i) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    indices_[i] = static_cast<uint32_t>((random >> 32) % model.features());
    const auto number = static_cast<int32_t>(random >> 40);  // of 24 bits
    halves_[i] = static_cast<float>(number >> 13) / 8.0F - 128.0F;
    floats_[i] = static_cast<float>(number) / 4096.0F - 1000.0F;
  }
}

absl::Status MadeRows::Fill(Slab& slab, const std::shared_ptr<const LoadedModel>& model, const BatchKind& kind) const {
  CsrView csr;
  csr.row_lengths = TypedArray::Of(ElementType::kU32, lengths_.data(), lengths_.size());
  csr.indices = TypedArray::Of(ElementType::kU32, indices_.data(), indices_.size());
  if (kind.values != Values::kOnes) {
    const std::vector<float>& values = kind.values == Values::kFloat16 ? halves_ : floats_;
    csr.values = TypedArray::Of(ElementType::kF32, values.data(), values.size());
  }
  slab.Open(model, kind);
  const std::optional<Segment> segment = slab.Claim(lengths_.size(), indices_.size(), kWantScores | kWantRaw);
  if (!segment.has_value()) return absl::InternalError("made-up rows do not fit into a slab");
  RowCursor cursor(csr);
  const absl::StatusOr<uint64_t> packed = PackRows(csr, cursor, slab, *segment);
  slab.Seal();
  return packed.status();
}

}  // namespace widelane
