#include "client/cli/bench_session.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace widelane::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;
using namespace std::chrono_literals;

// Turns that each backend gets for one number of rows.
constexpr size_t kTurns = 5;
constexpr size_t kWarmCalls = 3;
constexpr nanoseconds kWarmTime = 50ms;
constexpr size_t kLeastCalls = 20;
constexpr size_t kMostCalls = 50'000;
constexpr nanoseconds kCallsTime = 300ms;

// Inputs together are to exceed the last-level caches of hosts and GPUs, as far as that takes no more than this memory.
constexpr uint64_t kInputBytes = uint64_t{64} << 20;
constexpr uint64_t kSlabBytes = uint64_t{512} << 20;
constexpr uint64_t kLeastInputs = 3;
constexpr uint64_t kUsualInputs = 16;
constexpr uint64_t kMostInputs = 64;

absl::Status Named(BackendKind kind, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("backend ", BackendName(kind), ": ", status.message()));
}

uint64_t ResultsOfRow(const BenchProfile& profile) { return profile.best > 0 ? profile.best : profile.outputs; }

// Slabs for the largest batch. Errors: INVALID_ARGUMENT naming the limit.
absl::StatusOr<SlabOptions> SlabsFor(const BenchProfile& profile, uint64_t rows) {
  constexpr uint64_t kMost = EngineLimits::kMaxSlabSize;
  const auto too_many = [&](uint64_t count, const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("rows: a call of ", rows, " rows of ", profile.name, " has ", count,
                                                   " ", what, ", a batch holds at most ", kMost));
  };
  if (rows > kMost) return too_many(rows, "rows");
  const uint64_t entries = profile.EntriesOfRows(rows);
  const uint64_t results = rows * ResultsOfRow(profile);
  if (entries > kMost) return too_many(entries, "entries");
  if (results > kMost) return too_many(results, "results");
  SlabOptions slab;
  slab.rows = static_cast<uint32_t>(rows);
  slab.entries = static_cast<uint32_t>(std::max<uint64_t>(entries, 1));
  // Lanes size what lies between kernels by a slab's results; too little would cut a batch into several launches.
  constexpr uint64_t kLeastResults = 1 << 18;
  slab.results = static_cast<uint32_t>(std::max<uint64_t>({results, profile.outputs, kLeastResults}));
  return slab;
}

uint64_t InputsFor(const BenchProfile& profile, const SlabOptions& slab) {
  const uint64_t index = profile.features <= 0xFFFF ? sizeof(uint16_t) : sizeof(uint32_t);
  const uint64_t largest = std::max<uint64_t>(slab.entries * index, 1);
  const uint64_t slab_bytes = uint64_t{slab.entries} * 8 + uint64_t{slab.results} * 12 + uint64_t{slab.rows} * 12;
  const uint64_t wanted = std::clamp((kInputBytes + largest - 1) / largest, kUsualInputs, kMostInputs);
  return std::max(kLeastInputs, std::min(wanted, kSlabBytes / slab_bytes));
}

absl::StatusOr<nanoseconds> WarmUp(BenchCaller& caller) {
  const Clock::time_point start = Clock::now();
  nanoseconds shortest = nanoseconds::max();
  for (size_t calls = 0; calls < kWarmCalls || Clock::now() - start < kWarmTime; ++calls) {
    const absl::StatusOr<BenchCall> call = caller.Call();
    if (!call.ok()) return call.status();
    shortest = std::min(shortest, call->time);
  }
  return shortest;
}

absl::Status AddCalls(BenchCaller& caller, size_t count, std::vector<BenchCall>& calls) {
  for (size_t i = 0; i < count; ++i) {
    absl::StatusOr<BenchCall> call = caller.Call();
    if (!call.ok()) return call.status();
    calls.push_back(*call);
  }
  return absl::OkStatus();
}

size_t CallsFor(const std::optional<size_t>& wanted, nanoseconds call) {
  if (wanted.has_value()) return *wanted;
  const auto count = static_cast<size_t>(kCallsTime / std::max(call, nanoseconds{1}));
  return std::clamp(count, kLeastCalls, kMostCalls);
}

// The calls of one backend for one number of rows.
struct Series {
  const SessionBackend* entry;
  std::vector<BenchCall> calls;
  size_t wanted = 0;
  uint64_t checksum = 0;
};

absl::Status Begin(Series& series, uint64_t rows, const std::optional<size_t>& calls) {
  BenchCaller& caller = *series.entry->caller;
  if (absl::Status status = caller.Prepare(rows); !status.ok()) return status;
  // The checksum is the first input's, for all backends alike.
  const absl::StatusOr<BenchCall> first = caller.Call();
  if (!first.ok()) return first.status();
  series.checksum = caller.ResultsChecksum();
  const absl::StatusOr<nanoseconds> call = WarmUp(caller);
  if (!call.ok()) return call.status();
  series.wanted = CallsFor(calls, *call);
  series.calls.reserve(series.wanted);
  return absl::OkStatus();
}

// After another backend's turn the first call finds cold caches, and threads that sleep; it does not count.
absl::Status TakeTurn(Series& series, size_t turn, bool after_others) {
  BenchCaller& caller = *series.entry->caller;
  if (after_others) {
    if (const absl::StatusOr<BenchCall> cold = caller.Call(); !cold.ok()) return cold.status();
  }
  return AddCalls(caller, series.wanted * (turn + 1) / kTurns - series.calls.size(), series.calls);
}

// Whether all backends that keep the numeric contract gave the same bits.
absl::Status CheckBits(const std::vector<Series>& all, uint64_t rows) {
  const Series* exact = nullptr;
  for (const Series& series : all) {
    if (series.entry->kind == BackendKind::kCusparse) continue;
    if (exact != nullptr && exact->checksum != series.checksum) {
      return absl::InternalError(absl::StrCat("backends ", BackendName(exact->entry->kind), " and ",
                                              BackendName(series.entry->kind), " give different scores for ", rows,
                                              " rows"));
    }
    exact = &series;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<BenchSession>> BenchSession::Create(const BenchOptions& options) {
  auto session = std::unique_ptr<BenchSession>(new BenchSession(options));
  if (absl::Status status = session->MakeInputs(); !status.ok()) return status;
  if (absl::Status status = session->MakeBackends(); !status.ok()) return status;
  return session;
}

absl::Status BenchSession::MakeInputs() {
  const uint64_t most_rows = *std::max_element(options_.rows.begin(), options_.rows.end());
  absl::StatusOr<SlabOptions> slab = SlabsFor(options_.profile, most_rows);
  if (!slab.ok()) return slab.status();
  slab_ = *slab;
  absl::StatusOr<std::shared_ptr<const Model>> model = MakeModel(options_.profile, options_.seed);
  if (!model.ok()) return model.status();
  model_ = *std::move(model);
  const uint64_t inputs = InputsFor(options_.profile, slab_);
  for (uint64_t i = 0; i < inputs; ++i) inputs_.push_back(MakeRows(options_.profile, most_rows, options_.seed + i));
  return absl::OkStatus();
}

absl::Status BenchSession::MakeBackends() {
  BackendSetup setup;
  setup.gpus = options_.gpus;
  setup.threads = options_.threads;
  setup.lane_bytes = options_.lane_bytes;
  setup.slab = slab_;
  setup.slabs = inputs_.size();
  if (options_.plain) {
    // Arrays go through slabs of the usual size, which may be smaller than a call.
    const EngineOptions usual;
    setup.slab = usual.slab;
    setup.slab.entries = std::max(setup.slab.entries, options_.profile.entries_per_row);
    setup.slab.results = std::max(setup.slab.results, options_.profile.outputs);
    setup.slabs = usual.slabs;
  }
  const CallKind kind{{options_.profile.values, options_.profile.best}, options_.route};
  std::vector<std::string> reasons;
  for (const BackendKind wanted : options_.backends) {
    SessionBackend entry;
    entry.kind = wanted;
    absl::StatusOr<std::unique_ptr<BenchBackend>> backend = BenchBackend::Create(wanted, setup, model_);
    if (absl::IsFailedPrecondition(backend.status())) {
      entry.left_out = std::string(backend.status().message());
      reasons.push_back(absl::StrCat("backend ", BackendName(wanted), ": ", entry.left_out));
    } else if (!backend.ok()) {
      return backend.status();
    } else {
      entry.backend = *std::move(backend);
      entry.caller = (options_.plain ? CallWithArrays : CallWithSlabs)(*entry.backend, inputs_, kind);
    }
    backends_.push_back(std::move(entry));
  }
  if (reasons.size() < backends_.size()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrJoin(reasons, "; "));
}

std::optional<BusTimes> BenchSession::Bus(const CallBytes& bytes) const {
  for (const SessionBackend& entry : backends_) {
    if (entry.backend == nullptr || !entry.backend->first_gpu().has_value()) continue;
    const int gpu = *entry.backend->first_gpu();
    const absl::StatusOr<BusTimes> in = MeasureBus(gpu, bytes.in);
    const absl::StatusOr<BusTimes> out = MeasureBus(gpu, bytes.out);
    if (!in.ok() || !out.ok()) return std::nullopt;
    return BusTimes{in->to_device, out->to_host};
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<BenchMeasurement>> BenchSession::MeasureRows(uint64_t rows,
                                                                        const std::function<void()>& turn_done) {
  std::vector<Series> all;
  for (const SessionBackend& entry : backends_) {
    if (entry.backend != nullptr) all.push_back({&entry, {}});
  }
  for (Series& series : all) {
    const absl::Status status = Begin(series, rows, options_.calls);
    if (!status.ok()) return Named(series.entry->kind, status);
  }
  for (size_t turn = 0; turn < kTurns; ++turn) {
    for (Series& series : all) {
      const absl::Status status = TakeTurn(series, turn, all.size() > 1);
      if (!status.ok()) return Named(series.entry->kind, status);
      turn_done();
    }
  }
  if (absl::Status status = CheckBits(all, rows); !status.ok()) return status;
  std::optional<BusTimes> bus;
  if (!options_.plain) bus = Bus(all.front().entry->caller->bytes());
  std::vector<BenchMeasurement> measured;
  measured.reserve(all.size());
  for (const Series& series : all) {
    measured.push_back({rows, options_.profile.EntriesOfRows(rows), Summarise(series.calls),
                        series.entry->caller->bytes(), bus, series.checksum});
  }
  return measured;
}

absl::StatusOr<std::vector<std::vector<BenchMeasurement>>> BenchSession::Measure(const Tell& tell) {
  const auto there = static_cast<size_t>(
      std::count_if(backends_.begin(), backends_.end(), [](const auto& entry) { return entry.backend != nullptr; }));
  const uint64_t total = options_.rows.size() * there * kTurns;
  uint64_t done = 0;
  uint64_t scored = 0;
  std::vector<std::vector<BenchMeasurement>> all(backends_.size());
  for (const uint64_t rows : options_.rows) {
    absl::StatusOr<std::vector<BenchMeasurement>> measured = MeasureRows(rows, [&] { tell(++done, total, scored); });
    if (!measured.ok()) return measured.status();
    size_t next = 0;
    for (size_t b = 0; b < backends_.size(); ++b) {
      if (backends_[b].backend == nullptr) continue;
      all[b].push_back((*measured)[next++]);
      scored += rows * all[b].back().summary.calls;
    }
  }
  return all;
}

absl::StatusOr<std::vector<CallSummary>> BenchSession::Time(uint64_t rows, size_t calls) {
  std::vector<CallSummary> summaries;
  for (const SessionBackend& entry : backends_) {
    if (entry.backend == nullptr) {
      summaries.emplace_back();
      continue;
    }
    BenchCaller& caller = *entry.caller;
    if (absl::Status status = caller.Prepare(rows); !status.ok()) return Named(entry.kind, status);
    const absl::StatusOr<nanoseconds> warm = WarmUp(caller);
    if (!warm.ok()) return Named(entry.kind, warm.status());
    std::vector<BenchCall> made;
    made.reserve(calls);
    if (absl::Status status = AddCalls(caller, calls, made); !status.ok()) return Named(entry.kind, status);
    summaries.push_back(Summarise(made));
  }
  return summaries;
}

}  // namespace widelane::cli
