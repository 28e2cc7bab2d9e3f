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
constexpr std::chrono::microseconds kLongWarmUp(5000);
constexpr std::chrono::microseconds kShortWarmUp(100);
constexpr uint32_t kWarmUpRows = 1024;
constexpr std::chrono::milliseconds kLongBatch(3);  // larger ones tell nothing new
constexpr uint32_t kBest = 10;
// Entries x outputs that are worth making up for a measurement.
constexpr uint64_t kMostWork = uint64_t{1} << 30;

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
  return static_cast<uint32_t>(std::min<uint64_t>(
      {room.rows, (room.entries - std::min<uint64_t>(room.entries, 1)) / row_entries, worth, kMostRows}));
}

// One more and one less in turn: rows of one length are sent with fewer bytes than most.
std::vector<uint32_t> RaggedLengths(uint32_t rows, uint32_t row_entries) {
  std::vector<uint32_t> lengths(rows);
  for (uint32_t r = 0; r < rows; ++r) lengths[r] = r % 2 == 0 ? row_entries + 1 : row_entries - 1;
  return lengths;
}

// Batches of growing size up to `rows`, until caches are filled and threads awake and spread over the cores, as they
// are when batches follow one another.
absl::Status WarmUp(SlabHandle& slab, const MeasuredRoute& place, uint32_t rows, std::chrono::microseconds time,
                    RunRows run) {
  const Clock::time_point end = Clock::now() + time;
  absl::Status status;
  uint32_t next = 1;
  do {
    status = run(slab, place, next);
    next = std::min(rows, next * kGrowth);
  } while (status.ok() && Clock::now() < end);
  return status;
}

// The least of some repeats: what disturbs a measurement only ever adds to it.
absl::StatusOr<double> TimeRows(SlabHandle& slab, const MeasuredRoute& place, uint32_t rows, RunRows run) {
  absl::Status status = run(slab, place, rows);
  for (const Clock::time_point end = Clock::now() + kShortWarmUp; status.ok() && Clock::now() < end;) {
    status = run(slab, place, rows);
  }
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

// Batches of growing size on one route, one after the other, so that it stays warm.
absl::Status MeasureShape(SlabHandle& slab, const MeasuredRoute& place, uint32_t most_rows, uint32_t row_entries,
                          Clock::duration budget, std::vector<CostSample>& samples, RunRows run) {
  const Clock::time_point end = Clock::now() + budget;
  absl::Status status = WarmUp(slab, place, std::min(most_rows, kWarmUpRows), kLongWarmUp, run);
  for (uint32_t rows = 1; status.ok() && rows <= most_rows; rows *= kGrowth) {
    const absl::StatusOr<double> ns = TimeRows(slab, place, rows, run);
    status = ns.status();
    if (!ns.ok()) break;
    samples.push_back({rows, uint64_t{rows} * row_entries + rows % 2, std::max(1.0, *ns)});
    if (Clock::now() > end || std::chrono::duration<double, std::nano>(*ns) > kLongBatch) break;
  }
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const CostTable>> MeasureCosts(const std::shared_ptr<const LoadedModel>& model,
                                                              const std::vector<MeasuredRoute>& places,
                                                              SlabHandle& slab, std::chrono::milliseconds budget,
                                                              RunRows run) {
  const std::vector<BatchKind> kinds = KindsOf(model->model());
  const Clock::duration share = budget / (kinds.size() * std::size(kRowEntries) * places.size());
  auto table = std::make_unique<CostTable>();
  for (const BatchKind& kind : kinds) {
    std::vector<std::vector<CostSample>> samples(places.size());
    for (const uint32_t row_entries : kRowEntries) {
      const uint32_t rows = MostRows(*slab, model, kind, row_entries);
      if (rows == 0 || model->model().features() == 0) continue;
      const MadeRows made(model->model(), RaggedLengths(rows, row_entries));
      if (absl::Status status = made.Fill(*slab, model, kind); !status.ok()) return status;
      for (size_t p = 0; p < places.size(); ++p) {
        absl::Status status = MeasureShape(slab, places[p], rows, row_entries, share, samples[p], run);
        if (!status.ok()) return status;
      }
    }
    for (size_t p = 0; p < places.size(); ++p) {
      if (samples[p].empty()) continue;
      const CostCurve curve = CostCurve::Fit(samples[p]);
      table->Set(places[p].route, places[p].device, kind, curve);
      for (const size_t device : places[p].same_devices) table->Set(places[p].route, device, kind, curve);
    }
  }
  table->Finish();
  return std::unique_ptr<const CostTable>(std::move(table));
}

}  // namespace widelane
