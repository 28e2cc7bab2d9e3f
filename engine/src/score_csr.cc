// Arrays of any size: cut into batches, packed by all threads, scored while the next batch is packed.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "copy_elements.h"
#include "cut_csr.h"
#include "engine_impl.h"
#include "thread_pool.h"
#include "widelane/engine/errors.h"

namespace widelane {

namespace {

using Clock = std::chrono::steady_clock;

// Entries one thread packs at once: some 10 us.
constexpr uint64_t kChunkEntries = 1 << 15;
// A large batch is cut into about this many, so that most of the packing is hidden behind the devices' work; but not
// into small ones.
constexpr uint64_t kBatches = 6;
constexpr uint64_t kLeastBatchEntries = 1 << 18;
constexpr std::chrono::milliseconds kSlabPatience(100);

// Calls body(chunk) for each chunk below `chunks` on the pool's threads, if there is one.
template <typename Body>
void ForEach(ThreadPool* threads, size_t chunks, const Body& body) {
  if (threads != nullptr) return threads->ForEachChunk(chunks, [&body](size_t, size_t chunk) { body(chunk); });
  for (size_t chunk = 0; chunk < chunks; ++chunk) body(chunk);
}

// As the function for one array, by several threads.
Values NarrowestValues(const std::optional<TypedArray>& values, ThreadPool* threads) {
  if (!values.has_value()) return Values::kOnes;
  std::atomic<int> widest{0};
  const size_t chunks = (values->count + kChunkEntries - 1) / kChunkEntries;
  ForEach(threads, chunks, [&](size_t chunk) {
    const uint64_t begin = chunk * kChunkEntries;
    const int kind =
        static_cast<int>(NarrowestOf(*values, begin, std::min<uint64_t>(kChunkEntries, values->count - begin)));
    int seen = widest.load(std::memory_order_relaxed);
    while (seen < kind && !widest.compare_exchange_weak(seen, kind, std::memory_order_relaxed)) {
    }
  });
  return static_cast<Values>(widest.load(std::memory_order_relaxed));
}

}  // namespace

// One call of ScoreCsr.
class CsrJob : public BatchListener {
 public:
  CsrJob(Engine::Impl& engine, const std::shared_ptr<const LoadedModel>& model, const CsrView& csr,
         const CsrResults& results, const RowContexts* contexts)
      : engine_(engine), model_(model), csr_(csr), results_(results), contexts_(contexts), cutter_(csr) {}

  absl::StatusOr<CsrReport> Run(Route route) {
    kind_ = {NarrowestValues(csr_.values, engine_.threads()), results_.best, contexts_ != nullptr};
    if (absl::Status status = SumContexts(); !status.ok()) return status;
    const uint64_t entries = csr_.indices.count;
    const RouteChoice choice =
        engine_.Choose(*model_, kind_, std::max<uint64_t>(1, cutter_.rows()), entries, Where::kAnywhere, route);
    batch_entries_ = std::max(kLeastBatchEntries, entries / kBatches);
    while (!cutter_.done() && ok()) {
      if (absl::Status status = Batch(choice.route); !status.ok()) Fail(status);
    }
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return running_.empty(); });
    if (!status_.ok()) return status_;
    return report_;
  }

  void OnBatchDone(SlabHandle slab) override {
    const uint64_t first_row = FirstRowOf(*slab);
    if (slab->status.ok()) CopyResults(*slab, first_row);
    const std::lock_guard<std::mutex> lock(mutex_);
    status_.Update(slab->status);
    ++report_.batches;
    report_.route = slab->route;
    for (size_t stage = 0; stage < kStages; ++stage) {
      report_.stages.time[stage] = std::max(report_.stages.time[stage], slab->stages.time[stage]);
    }
    running_.erase(
        std::find_if(running_.begin(), running_.end(), [&](const auto& of) { return of.slab == slab.get(); }));
    slab.reset();
    changed_.notify_one();  // with the lock: the job may be gone once it is free
  }

 private:
  struct Running {
    const Slab* slab;
    uint64_t first_row;
  };

  absl::Status SumContexts() {
    if (contexts_ == nullptr) return absl::OkStatus();
    kind_.values = std::max(kind_.values, NarrowestValues(contexts_->features.values, engine_.threads()));
    absl::Status status =
        sums_.Compute(model_->model(), csr_, *contexts_, kind_.values, engine_.options().slab.context_sums);
    report_.ignored += sums_.ignored();
    return status;
  }

  bool ok() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return status_.ok();
  }
  void Fail(const absl::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    status_.Update(status);
  }
  uint64_t FirstRowOf(const Slab& slab) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::find_if(running_.begin(), running_.end(), [&](const auto& of) { return of.slab == &slab; })->first_row;
  }

  // Packs the next rows and sends them off.
  absl::Status Batch(Route route) {
    SlabHandle slab{nullptr, ReturnSlab{nullptr}};
    while (slab == nullptr) {
      if (!ok()) return absl::OkStatus();
      slab = engine_.pool().WaitAndTake(kSlabPatience);
    }
    const Clock::time_point begin = Clock::now();
    slab->Open(model_, kind_);
    CsrShape room = slab->Room();
    room.entries = std::min(room.entries, batch_entries_);
    const uint64_t first_row = cutter_.row();
    const std::vector<CsrCutter::Part> parts = cutter_.Take(room, slab->Room().entries, kChunkEntries);
    if (parts.empty()) {
      return FieldError(csr_.indptr.has_value() ? "indptr" : "row_lengths",
                        absl::StrCat("row ", first_row, " has ", RowCursor(csr_, first_row, cutter_.entry()).length(),
                                     " entries, a slab holds ", slab->Room().entries));
    }
    if (absl::Status status = Pack(*slab, parts); !status.ok()) return status;
    slab->Seal();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      running_.push_back({slab.get(), first_row});
      report_.stages[Stage::kPack] += Clock::now() - begin;
    }
    engine_.Submit(std::move(slab), *this, Where::kAnywhere, route, /*callers=*/1);
    return absl::OkStatus();
  }

  absl::Status Pack(Slab& slab, const std::vector<CsrCutter::Part>& parts) {
    const auto wants =
        static_cast<uint8_t>((results_.scores != nullptr ? kWantScores : 0) | (results_.raw != nullptr ? kWantRaw : 0));
    std::vector<Segment> segments;
    segments.reserve(parts.size());
    // The first brings the sums of the contexts, for all.
    for (const CsrCutter::Part& part : parts) {
      segments.push_back(*slab.Claim(part.rows, part.entries, wants, segments.empty() ? sums_.lines() : 0));
      segments.back().first_line = 0;
    }
    // The error of the first row that has one, whichever thread meets its own first.
    std::vector<absl::StatusOr<uint64_t>> packed(parts.size(), uint64_t{0});
    ForEach(engine_.threads(), parts.size(), [&](size_t i) {
      RowCursor cursor(csr_, parts[i].row, parts[i].begin);
      packed[i] = PackRows(csr_, cursor, slab, segments[i], contexts_ == nullptr ? nullptr : &sums_);
    });
    for (const absl::StatusOr<uint64_t>& part : packed) {
      if (!part.ok()) return part.status();
      report_.ignored += *part;
    }
    return absl::OkStatus();
  }

  template <typename T>
  static void CopyRows(const T* from, uint64_t rows, uint64_t per_row, uint64_t first_row, T* to) {
    if (to != nullptr) std::memcpy(to + first_row * per_row, from, rows * per_row * sizeof(T));
  }

  void CopyResults(const Slab& slab, uint64_t first_row) const {
    if (kind_.best > 0) {
      CopyRows(slab.best_outputs(0), slab.rows(), kind_.best, first_row, results_.best_outputs);
      CopyRows(slab.best_scores(0), slab.rows(), kind_.best, first_row, results_.best_scores);
      return;
    }
    const uint64_t outputs = model_->model().outputs();
    CopyRows(slab.scores(0), slab.rows(), outputs, first_row, results_.scores);
    CopyRows(slab.raw(0), slab.rows(), outputs, first_row, results_.raw);
  }

  Engine::Impl& engine_;
  const std::shared_ptr<const LoadedModel>& model_;
  const CsrView& csr_;
  const CsrResults& results_;
  const RowContexts* const contexts_;
  ContextSums sums_;
  CsrCutter cutter_;
  BatchKind kind_;
  uint64_t batch_entries_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Running> running_;  // batches on their way
  absl::Status status_;           // the first failure
  CsrReport report_;
};

absl::StatusOr<CsrReport> Engine::Impl::ScoreCsr(const std::shared_ptr<const LoadedModel>& model, const CsrView& csr,
                                                 const CsrResults& results, Route route, const RowContexts* contexts) {
  if (results.best > std::min(kMaxBest, model->model().outputs())) {
    return FieldError("best", absl::StrCat("is ", results.best, ", the model has ", model->model().outputs(),
                                           " outputs and ", kMaxBest, " is the most there may be"));
  }
  return CsrJob(*this, model, csr, results, contexts).Run(route);
}

}  // namespace widelane
