#include "probe.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "numeric.h"

namespace widelane {

namespace {

// Entries x outputs of a probe: a few milliseconds on one core.
constexpr uint64_t kProbeWork = 1 << 22;
// Lengths from which backends cut rows are below both; the second is for models whose outputs make a row dear.
constexpr uint64_t kLongRow = 10000;
constexpr uint64_t kLeastLongRow = 600;

struct ProbeRows {
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> indices;
  std::vector<float> values;

  CsrView View(bool with_values) const {
    CsrView csr;
    csr.row_lengths = TypedArray::Of(ElementType::kU32, lengths.data(), lengths.size());
    csr.indices = TypedArray::Of(ElementType::kU32, indices.data(), indices.size());
    if (with_values) csr.values = TypedArray::Of(ElementType::kF32, values.data(), values.size());
    return csr;
  }
};

ProbeRows MakeRows(const Model& model, const SlabOptions& limits) {
  const uint64_t longest = std::min<uint64_t>(
      {kLongRow, std::max<uint64_t>(kLeastLongRow, kProbeWork / model.outputs()), limits.entries / 2});
  const uint64_t rows = std::min<uint64_t>(limits.rows, limits.results / model.outputs());
  ProbeRows probe;
  uint64_t random = 1;
  // The longest first: a model with very many outputs has room for few rows.
  for (uint64_t length : {longest, uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{40}, uint64_t{300}}) {
    if (probe.lengths.size() == rows || model.features() == 0) break;
    length = std::min(length, longest);
    probe.lengths.push_back(static_cast<uint32_t>(length));
    for (uint64_t i = 0; i < length; ++i) {
      random = random * 6364136223846793005U + 1442695040888963407U;
      probe.indices.push_back(static_cast<uint32_t>((random >> 32) % model.features()));
      probe.values.push_back(static_cast<float>(static_cast<int64_t>(random >> 40)) / 4096.0F - 1000.0F);
    }
  }
  return probe;
}

absl::Status ScoreProbe(Device& device, Lane& lane, size_t index, const ProbeRows& rows, bool with_values, Slab& slab,
                        const std::shared_ptr<const LoadedModel>& model) {
  slab.Open(model, with_values);
  const CsrView csr = rows.View(with_values);
  const std::optional<Segment> segment = slab.Claim(rows.lengths.size(), rows.indices.size(), kWantScores | kWantRaw);
  if (!segment.has_value()) return absl::InternalError("the probe does not fit into a slab");
  RowCursor cursor(csr);
  const absl::StatusOr<uint64_t> packed = PackRows(csr, cursor, slab, *segment);
  if (!packed.ok()) return packed.status();
  slab.Seal();
  StageTimes stages;
  absl::Status status = lane.Score(model->model(), model->resident(index), slab.view(), 0, slab.rows(), stages);
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(device.info().id, ": ", std::string(status.message())));
}

absl::Status Compare(const Slab& got, const Slab& expected, uint32_t outputs, const DeviceInfo& info) {
  for (uint32_t row = 0; row < got.rows(); ++row) {
    for (uint32_t k = 0; k < outputs; ++k) {
      if (numeric::BitsOf(got.raw(row)[k]) == numeric::BitsOf(expected.raw(row)[k]) &&
          numeric::BitsOf(got.scores(row)[k]) == numeric::BitsOf(expected.scores(row)[k])) {
        continue;
      }
      return absl::InternalError(absl::StrCat(info.id, ": computes other bits than the CPU: probe row ", row,
                                              ", output ", k, ": ", got.raw(row)[k], " instead of ",
                                              expected.raw(row)[k]));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ProbeDevice(const std::shared_ptr<const LoadedModel>& model, Device& device, size_t index, Device& cpu,
                         const SlabOptions& limits, HostMemory& memory) {
  const ProbeRows rows = MakeRows(model->model(), limits);
  SlabOptions size;
  size.rows = static_cast<uint32_t>(std::max<size_t>(1, rows.lengths.size()));
  size.entries = static_cast<uint32_t>(std::max<size_t>(1, rows.indices.size()));
  size.results = size.rows * model->model().outputs();
  absl::StatusOr<std::unique_ptr<Slab>> got = Slab::Create(size, memory);
  absl::StatusOr<std::unique_ptr<Slab>> expected = Slab::Create(size, memory);
  absl::StatusOr<std::unique_ptr<Lane>> lane = device.MakeLane();
  absl::StatusOr<std::unique_ptr<Lane>> cpu_lane = cpu.MakeLane();
  for (const absl::Status& status : {got.status(), expected.status(), lane.status(), cpu_lane.status()}) {
    if (!status.ok()) return status;
  }
  for (const bool with_values : {false, true}) {
    absl::Status status = ScoreProbe(device, **lane, index, rows, with_values, **got, model);
    if (status.ok()) status = ScoreProbe(cpu, **cpu_lane, 0, rows, with_values, **expected, model);
    if (status.ok()) status = Compare(**got, **expected, model->model().outputs(), device.info());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace widelane
