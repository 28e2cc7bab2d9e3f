#include "probe.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "made_rows.h"
#include "numeric.h"

namespace widelane {

namespace {

// Entries x outputs of a probe: a few milliseconds on one core.
constexpr uint64_t kProbeWork = 1 << 22;
// Lengths from which backends cut rows are below both; the second is for models whose outputs make a row dear.
constexpr uint32_t kLongRow = 10000;
constexpr uint64_t kLeastLongRow = 600;

// Numbers of best outputs between which kernels may be chosen, and 0 for all outputs.
std::vector<uint32_t> BestOf(uint32_t outputs) {
  std::vector<uint32_t> bests = {0};
  if (outputs == 1) return bests;
  for (const uint32_t best : {1U, 10U, kMaxBest}) {
    if (best < outputs) bests.push_back(best);
  }
  if (outputs <= kMaxBest) bests.push_back(outputs);
  return bests;
}

// The longest first: a model with very many outputs has room for few rows. Then short ones, enough for several groups.
std::vector<uint32_t> FewRows(const Model& model, const SlabOptions& limits, uint32_t longest_row) {
  const uint64_t longest = std::min<uint64_t>(
      {longest_row, std::max<uint64_t>(kLeastLongRow, kProbeWork / model.outputs()), limits.entries / 2});
  const uint64_t rows = std::min<uint64_t>({limits.rows, limits.results / model.outputs(), 3 * kGroupRows + 1});
  std::vector<uint32_t> lengths;
  uint64_t entries = 0;
  for (uint64_t i = 0; i < rows; ++i) {
    constexpr uint64_t kShort[] = {0, 1, 7, 40, 300, 2};
    const uint64_t length = i == 0 ? longest : std::min<uint64_t>(kShort[i % std::size(kShort)], longest);
    if (entries + length > limits.entries) break;
    if (i > std::size(kShort) && (entries + length) * model.outputs() > kProbeWork) break;
    entries += length;
    lengths.push_back(static_cast<uint32_t>(length));
  }
  return lengths;
}

// As many as the work allows, since some kernels are for large batches only.
std::vector<uint32_t> ManyRows(const Model& model, const SlabOptions& limits) {
  constexpr uint64_t kLength = 40;
  const uint64_t rows = std::min<uint64_t>({limits.rows, limits.results / model.outputs(), limits.entries / kLength,
                                            kProbeWork / kLength / model.outputs()});
  return std::vector<uint32_t>(rows, static_cast<uint32_t>(kLength));
}

// Every kind a batch of the model can be of, as far as kernels differ.
std::vector<BatchKind> KindsOf(uint32_t outputs) {
  std::vector<BatchKind> kinds;
  for (const Values values : {Values::kOnes, Values::kFloat16, Values::kFloat32}) {
    for (const uint32_t best : BestOf(outputs)) {
      for (const bool contexts : {false, true}) kinds.push_back({values, best, contexts});
    }
  }
  return kinds;
}

// What a batch gave, as bits.
std::vector<int64_t> Results(const Slab& slab, uint32_t outputs) {
  std::vector<int64_t> bits;
  for (uint32_t row = 0; row < slab.rows(); ++row) {
    if (slab.kind().best > 0) {
      for (uint32_t k = 0; k < slab.kind().best; ++k) {
        bits.push_back(slab.best_outputs(row)[k]);
        bits.push_back(numeric::BitsOf(slab.best_scores(row)[k]));
      }
      continue;
    }
    for (uint32_t k = 0; k < outputs; ++k) {
      bits.push_back(numeric::BitsOf(slab.raw(row)[k]));
      bits.push_back(numeric::BitsOf(slab.scores(row)[k]));
    }
  }
  return bits;
}

absl::Status Compare(const std::vector<int64_t>& got, const std::vector<int64_t>& expected, const Slab& slab,
                     uint32_t outputs, const std::string& device) {
  const auto difference = std::mismatch(got.begin(), got.end(), expected.begin()).first;
  if (difference == got.end()) return absl::OkStatus();
  const auto at = static_cast<uint64_t>(difference - got.begin()) / 2;
  const uint64_t of_row = slab.kind().best > 0 ? slab.kind().best : outputs;
  return absl::InternalError(absl::StrCat(device, ": computes other bits than the CPU: probe row ", at / of_row,
                                          slab.kind().best > 0 ? ", place " : ", output ", at % of_row, ", values ",
                                          kValuesNames[static_cast<size_t>(slab.kind().values)],
                                          slab.kind().contexts ? ", contexts" : ""));
}

}  // namespace

absl::Status ProbeDevice(const std::shared_ptr<const LoadedModel>& model, const std::string& device,
                         const SlabOptions& limits, SlabHandle& slab, const ProbeRuns& runs) {
  const uint32_t outputs = model->model().outputs();
  if (model->model().features() == 0) return absl::OkStatus();
  // Also without long rows: other kernels may then be chosen.
  for (const std::vector<uint32_t>& lengths : {FewRows(model->model(), limits, kLongRow),
                                               FewRows(model->model(), limits, 40), ManyRows(model->model(), limits)}) {
    if (lengths.empty()) continue;  // a slab has no room for such rows, or the outputs are too many
    const MadeRows rows(model->model(), lengths);
    for (const BatchKind& kind : KindsOf(outputs)) {
      absl::Status filled = rows.Fill(*slab, model, kind);
      if (kind.contexts && absl::IsResourceExhausted(filled)) continue;  // no request's contexts fit either
      if (!filled.ok()) return filled;
      if (absl::Status status = runs.on_cpu(slab); !status.ok()) return status;
      const std::vector<int64_t> expected = Results(*slab, outputs);
      for (const bool mapped : {false, true}) {
        slab->SpoilResults();
        absl::Status status = runs.on_gpu(slab, mapped);
        if (!status.ok()) return absl::Status(status.code(), absl::StrCat(device, ": ", status.message()));
        status = Compare(Results(*slab, outputs), expected, *slab, outputs, device);
        if (!status.ok()) return status;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace widelane
