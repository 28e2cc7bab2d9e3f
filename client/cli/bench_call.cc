#include "client/cli/bench_call.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace widelane::cli {
namespace {

using Clock = std::chrono::steady_clock;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Takes the slab of the one batch there is. The waiting thread looks all the time: sleeping and being woken would take
// longer than a small batch.
class Waiter : public BatchListener {
 public:
  void OnBatchDone(SlabHandle slab) override {
    slab_ = std::move(slab);
    done_.store(true, std::memory_order_release);
  }

  SlabHandle Wait() {
    // Longer batches leave the core to the engine's own threads, which may need it.
    constexpr int kLooks = 2'000;
    for (int looks = 0; !done_.load(std::memory_order_acquire); ++looks) {
      if (looks < kLooks) {
        Pause();
      } else {
        std::this_thread::yield();
      }
    }
    done_.store(false, std::memory_order_relaxed);
    return std::move(slab_);
  }

 private:
  std::atomic<bool> done_{false};
  SlabHandle slab_;
};

// FNV-1a, by words where there are some.
class Checksum {
 public:
  template <typename T>
  Checksum& Add(const T* data, size_t count) {
    static_assert(sizeof(T) == sizeof(uint32_t));
    for (size_t i = 0; i < count; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, data + i, sizeof bits);
      sum_ = (sum_ ^ bits) * 0x100000001B3U;
    }
    return *this;
  }
  uint64_t sum() const { return sum_; }

 private:
  uint64_t sum_ = 0xCBF29CE484222325U;
};

uint64_t ResultBytes(uint64_t rows, const Model& model, uint32_t best) {
  return best > 0 ? rows * best * (sizeof(uint32_t) + sizeof(float)) : rows * model.outputs() * sizeof(float);
}

// Bytes of a packed batch that a device needs.
uint64_t PackedBytes(const BatchView& view) {
  const uint64_t length = view.lengths8 != nullptr ? 1 : view.lengths16 != nullptr ? 2 : sizeof(uint32_t);
  const uint64_t value = view.values32 != nullptr ? sizeof(float) : view.values16 != nullptr ? sizeof(uint16_t) : 0;
  const uint64_t index = view.indices16 != nullptr ? sizeof(uint16_t) : sizeof(uint32_t);
  const uint64_t entries = view.entries * (index + value) + (view.row_max != nullptr ? view.rows * sizeof(float) : 0);
  if (UniformLength(view) > 0) return entries;
  const uint64_t groups = (uint64_t{view.rows} + kGroupRows - 1) / kGroupRows;
  const bool by_length = view.lengths8 != nullptr || view.lengths16 != nullptr;
  return entries + view.rows * length + (by_length ? groups * sizeof(uint32_t) : 0);
}

class SlabCaller : public BenchCaller {
 public:
  SlabCaller(const BenchBackend& backend, const std::vector<MadeRows>& inputs, const CallKind& kind)
      : backend_(backend), inputs_(inputs), kind_(kind), slabs_(inputs.size()) {}

  absl::Status Prepare(uint64_t rows) override {
    next_ = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (slabs_[i] == nullptr) slabs_[i] = backend_.engine().TakeSlab();
      if (slabs_[i] == nullptr) return absl::ResourceExhaustedError("the engine has no free slab");
      if (absl::Status status = Pack(inputs_[i].View(rows), rows, *slabs_[i]); !status.ok()) return status;
    }
    const BatchView& view = slabs_.front()->view();
    bytes_ = {PackedBytes(view), ResultBytes(rows, backend_.model()->model(), kind_.batch.best)};
    return absl::OkStatus();
  }

  absl::StatusOr<BenchCall> Call() override {
    SlabHandle& slab = slabs_[next_];
    next_ = (next_ + 1) % slabs_.size();
    slab->status = absl::OkStatus();
    slab->stages = {};
    const Clock::time_point start = Clock::now();
    backend_.engine().Submit(std::move(slab), waiter_, Where::kAnywhere, kind_.route);
    SlabHandle done = waiter_.Wait();
    const Clock::time_point end = Clock::now();
    last_ = done.get();
    slab = std::move(done);
    if (!slab->status.ok()) return slab->status;
    return BenchCall{end - start, slab->stages, slab->route};
  }

  uint64_t ResultsChecksum() const override {
    const size_t rows = last_->rows();
    if (const size_t best = kind_.batch.best; best > 0) {
      return Checksum().Add(last_->best_outputs(0), rows * best).Add(last_->best_scores(0), rows * best).sum();
    }
    return Checksum().Add(last_->scores(0), rows * backend_.model()->model().outputs()).sum();
  }

  CallBytes bytes() const override { return bytes_; }

 private:
  absl::Status Pack(const CsrView& csr, uint64_t rows, Slab& slab) const {
    slab.Open(backend_.model(), kind_.batch);
    const std::optional<Segment> segment = slab.Claim(rows, csr.indices.count, kWantScores);
    if (!segment.has_value()) {
      return absl::InternalError(
          absl::StrCat("a slab does not hold ", rows, " rows of ", csr.indices.count, " entries"));
    }
    RowCursor cursor(csr);
    const absl::StatusOr<uint64_t> packed = PackRows(csr, cursor, slab, *segment);
    slab.Seal();
    return packed.status();
  }

  const BenchBackend& backend_;
  const std::vector<MadeRows>& inputs_;
  const CallKind kind_;
  Waiter waiter_;
  std::vector<SlabHandle> slabs_;
  size_t next_ = 0;
  const Slab* last_ = nullptr;
  CallBytes bytes_;
};

// Each input has results of its own, as callers do.
struct Results {
  std::vector<float> scores;
  std::vector<uint32_t> best_outputs;
};

class ArrayCaller : public BenchCaller {
 public:
  ArrayCaller(const BenchBackend& backend, const std::vector<MadeRows>& inputs, const CallKind& kind)
      : backend_(backend), inputs_(inputs), kind_(kind), results_(inputs.size()) {}

  absl::Status Prepare(uint64_t rows) override {
    rows_ = rows;
    next_ = 0;
    const size_t best = kind_.batch.best;
    for (Results& results : results_) {
      results.scores.resize(rows * (best > 0 ? best : backend_.model()->model().outputs()));
      results.best_outputs.resize(rows * best);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<BenchCall> Call() override {
    const CsrView csr = inputs_[next_].View(rows_);
    Results& results = results_[next_];
    last_ = &results;
    next_ = (next_ + 1) % inputs_.size();
    CsrResults wanted;
    wanted.best = kind_.batch.best;
    (wanted.best > 0 ? wanted.best_scores : wanted.scores) = results.scores.data();
    if (wanted.best > 0) wanted.best_outputs = results.best_outputs.data();
    const Clock::time_point start = Clock::now();
    const absl::StatusOr<CsrReport> report = backend_.engine().ScoreCsr(backend_.model(), csr, wanted, kind_.route);
    const Clock::time_point end = Clock::now();
    if (!report.ok()) return report.status();
    return BenchCall{end - start, report->stages, std::nullopt};
  }

  uint64_t ResultsChecksum() const override {
    return Checksum()
        .Add(last_->best_outputs.data(), last_->best_outputs.size())
        .Add(last_->scores.data(), last_->scores.size())
        .sum();
  }

  CallBytes bytes() const override {
    const CsrView csr = inputs_.front().View(rows_);
    const size_t value = csr.values.has_value() ? sizeof(float) : 0;
    return {csr.indptr->count * sizeof(uint32_t) + csr.indices.count * (sizeof(uint32_t) + value),
            ResultBytes(rows_, backend_.model()->model(), kind_.batch.best)};
  }

 private:
  const BenchBackend& backend_;
  const std::vector<MadeRows>& inputs_;
  const CallKind kind_;
  std::vector<Results> results_;
  uint64_t rows_ = 0;
  size_t next_ = 0;
  const Results* last_ = nullptr;
};

}  // namespace

std::unique_ptr<BenchCaller> CallWithSlabs(const BenchBackend& backend, const std::vector<MadeRows>& inputs,
                                           const CallKind& kind) {
  return std::make_unique<SlabCaller>(backend, inputs, kind);
}

std::unique_ptr<BenchCaller> CallWithArrays(const BenchBackend& backend, const std::vector<MadeRows>& inputs,
                                            const CallKind& kind) {
  return std::make_unique<ArrayCaller>(backend, inputs, kind);
}

}  // namespace widelane::cli
