#include "measure.h"

#include <algorithm>
#include <utility>

#include "made_rows.h"

namespace widelane {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kRowEntries[] = {10, 80};
constexpr uint32_t kMostRows = 1 << 16;
constexpr uint32_t kGrowth = 4;
constexpr int kRepeats = 5;
constexpr std::chrono::microseconds kWarmUp(300);
constexpr std::chrono::milliseconds kLongBatch(3);  // larger ones tell nothing new
constexpr uint32_t kBest = 10;
// Entries x outputs that are worth making up for a measurement.
constexpr uint64_t kMostWork = uint64_t{1} << 32;

std::vector<BatchKind> KindsOf(const Model& model) {
  std::vector<BatchKind> kinds;
  for (const Values values : {Values::kOnes, Values::kFloat16, Values::kFloat32}) {
    kinds.push_back({values, 0});
    if (model.outputs() > 1) kinds.push_back({values, std::min(kBest, model.outputs())});
  }
  return kinds;
}

// The most rows of `row_entries` that a slab takes as a batch of `kind`, within reason.
uint32_t MostRows(Slab& slab, const std::shared_ptr<const LoadedModel>& model, const BatchKind& kind,
                  uint32_t row_entries) {
  slab.Open(model, kind);
  const CsrShape room = slab.Room();
  const uint64_t worth = std::max<uint64_t>(64, kMostWork / row_entries / model->model().outputs());
  return static_cast<uint32_t>(std::min<uint64_t>({room.rows, room.entries / row_entries, worth, kMostRows}));
}

// The least of some repeats: what disturbs a measurement only ever adds to it.
absl::StatusOr<double> TimeRows(SlabHandle& slab, const MeasuredRoute& place, uint32_t rows, RunRows run) {
  // Until caches are filled and threads awake, as they are when batches follow one another.
  const Clock::time_point warm = Clock::now() + kWarmUp;
  absl::Status status = run(slab, place, rows);
  while (status.ok() && Clock::now() < warm) status = run(slab, place, rows);
  double least = 0;
  for (int i = 0; i < kRepeats && status.ok(); ++i) {
    const Clock::time_point begin = Clock::now();
    status = run(slab, place, rows);
    const std::chrono::duration<double, std::nano> time = Clock::now() - begin;
    least = i == 0 ? time.count() : std::min(least, time.count());
    if (time > kLongBatch) break;
  }
  if (!status.ok()) return status;
  return least;
}

struct PlaceSamples {
  const MeasuredRoute* place;
  BatchKind kind;
  std::vector<CostSample> samples;
};

absl::Status MeasureShape(SlabHandle& slab, uint32_t most_rows, uint32_t row_entries, Clock::time_point end,
                          std::vector<PlaceSamples>& places, RunRows run) {
  std::vector<bool> ended(places.size());
  for (uint32_t rows = 1; rows <= most_rows; rows *= kGrowth) {
    for (size_t p = 0; p < places.size(); ++p) {
      if (ended[p] || (Clock::now() > end && !places[p].samples.empty())) continue;
      const absl::StatusOr<double> ns = TimeRows(slab, *places[p].place, rows, run);
      if (!ns.ok()) return ns.status();
      places[p].samples.push_back({rows, uint64_t{rows} * row_entries, std::max(1.0, *ns)});
      ended[p] = std::chrono::duration<double, std::nano>(*ns) > kLongBatch;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const CostTable>> MeasureCosts(const std::shared_ptr<const LoadedModel>& model,
                                                              const std::vector<MeasuredRoute>& places,
                                                              SlabHandle& slab, std::chrono::milliseconds budget,
                                                              RunRows run) {
  const std::vector<BatchKind> kinds = KindsOf(model->model());
  const auto shapes = static_cast<int>(kinds.size() * std::size(kRowEntries));
  auto table = std::make_unique<CostTable>();
  for (const BatchKind& kind : kinds) {
    std::vector<PlaceSamples> measured;
    for (const MeasuredRoute& place : places) measured.push_back({&place, kind, {}});
    for (const uint32_t row_entries : kRowEntries) {
      const uint32_t rows = MostRows(*slab, model, kind, row_entries);
      if (rows == 0 || model->model().features() == 0) continue;
      const MadeRows made(model->model(), std::vector<uint32_t>(rows, row_entries));
      if (absl::Status status = made.Fill(*slab, model, kind); !status.ok()) return status;
      const Clock::time_point end = Clock::now() + budget / shapes;
      if (absl::Status status = MeasureShape(slab, rows, row_entries, end, measured, run); !status.ok()) return status;
    }
    for (const PlaceSamples& of : measured) {
      if (of.samples.empty()) continue;
      const CostCurve curve = CostCurve::Fit(of.samples);
      table->Set(of.place->route, of.place->device, kind, curve);
      for (const size_t device : of.place->same_devices) table->Set(of.place->route, device, kind, curve);
    }
  }
  table->Finish();
  return std::unique_ptr<const CostTable>(std::move(table));
}

}  // namespace widelane
