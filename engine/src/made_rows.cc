#include "made_rows.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace widelane {

namespace {

// Entries of the contexts; they are the first of those made up.
const std::vector<uint32_t> kContextLengths = {3, 0, 20};
constexpr size_t kContextEntries = 23;

}  // namespace

MadeRows::MadeRows(const Model& model, std::vector<uint32_t> lengths) : lengths_(std::move(lengths)) {
  const uint64_t entries = std::accumulate(lengths_.begin(), lengths_.end(), uint64_t{0});
  const uint64_t made = std::max<uint64_t>(entries, kContextEntries);
  indices_.resize(made);
  halves_.resize(made);
  floats_.resize(made);
  for (size_t row = 0; row < lengths_.size(); ++row) {
    context_of_.push_back(static_cast<uint16_t>(row % kContextLengths.size()));
  }
  uint64_t random = 1;
  for (uint64_t i = 0; i < made; ++i) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    indices_[i] = static_cast<uint32_t>((random >> 32) % model.features());
    const auto number = static_cast<int32_t>(random >> 40);  // of 24 bits
    halves_[i] = static_cast<float>(number >> 13) / 8.0F - 128.0F;
    floats_[i] = static_cast<float>(number) / 4096.0F - 1000.0F;
  }
}

CsrView MadeRows::Rows(Values values, const std::vector<uint32_t>& lengths, size_t entries) const {
  CsrView csr;
  csr.row_lengths = TypedArray::Of(ElementType::kU32, lengths.data(), lengths.size());
  csr.indices = TypedArray::Of(ElementType::kU32, indices_.data(), entries);
  if (values != Values::kOnes) {
    const std::vector<float>& numbers = values == Values::kFloat16 ? halves_ : floats_;
    csr.values = TypedArray::Of(ElementType::kF32, numbers.data(), entries);
  }
  return csr;
}

absl::Status MadeRows::Fill(Slab& slab, const std::shared_ptr<const LoadedModel>& model, const BatchKind& kind) const {
  const size_t entries = std::accumulate(lengths_.begin(), lengths_.end(), size_t{0});
  const CsrView csr = Rows(kind.values, lengths_, entries);
  const RowContexts contexts{Rows(kind.values, kContextLengths, kContextEntries),
                             TypedArray::Of(ElementType::kU16, context_of_.data(), context_of_.size())};
  slab.Open(model, kind);
  ContextSums sums;
  if (kind.contexts) {
    const uint64_t room = uint64_t{slab.RoomForLines()} * model->model().outputs();
    if (absl::Status status = sums.Compute(model->model(), csr, contexts, kind.values, room); !status.ok()) {
      return status;
    }
  }
  const std::optional<Segment> segment = slab.Claim(lengths_.size(), entries, kWantScores | kWantRaw, sums.lines());
  if (!segment.has_value()) return absl::InternalError("made-up rows do not fit into a slab");
  RowCursor cursor(csr);
  const absl::StatusOr<uint64_t> packed = PackRows(csr, cursor, slab, *segment, kind.contexts ? &sums : nullptr);
  slab.Seal();
  return packed.status();
}

}  // namespace widelane
