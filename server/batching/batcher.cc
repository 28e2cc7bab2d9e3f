#include "server/batching/batcher.h"

#include <algorithm>
#include <utility>

namespace widelane {

namespace {
using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;
}  // namespace

// A slab and whose rows are in it.
class Batcher::Batch : public BatchListener {
 public:
  struct Part {
    ScoreTask* task = nullptr;
    Segment segment;
    uint64_t first_row = 0;  // of the request
    nanoseconds pack{0};
  };

  explicit Batch(Batcher& owner) : owner_(owner) {}
  void OnBatchDone(SlabHandle done) override { owner_.OnBatchDone(*this, std::move(done)); }

  SlabHandle slab;
  std::vector<Part> parts;
  size_t writers = 0;   // threads that are packing
  bool closed = false;  // takes no more; the last writer submits it
  Clock::time_point sealed;

 private:
  Batcher& owner_;
};

Batcher::Batcher(Engine& engine, BatchObserver& observer) : engine_(engine), observer_(observer) {}
Batcher::~Batcher() = default;

void Batcher::Submit(ScoreTask& task) {
  task.Start();
  Continue(task);
}

void Batcher::Continue(ScoreTask& task) {
  while (!task.failed() && task.cursor_->row() < task.work_.shape.rows) {
    if (const absl::Status wanted = task.CheckWanted(); !wanted.ok()) {
      task.Fail(wanted);
      ResumeWaiting();  // it may have been resumed for a slab that it will not take
      break;
    }
    const Claimed claimed = Claim(task);
    if (claimed.displaced != nullptr) Send(*claimed.displaced, Where::kAnywhere);
    if (claimed.batch == nullptr) return;
    Pack(task, claimed);
  }
  task.Release();
}

Batcher::Claimed Batcher::Claim(ScoreTask& task) {
  Claimed claimed;
  const uint64_t rows_left = task.work_.shape.rows - task.cursor_->row();
  const std::lock_guard lock(mutex_);
  for (;;) {
    Batch* batch = FindOpen(task);
    if (batch == nullptr) batch = Open(task);
    if (batch == nullptr) {
      waiting_.push_back(&task);
      return claimed;
    }
    const CsrShape room = batch->slab->Room();
    CsrShape take{rows_left, task.entries_left_};
    const bool cut = take.rows > room.rows || take.entries > room.entries;
    if (cut) take = RowsThatFit(*task.cursor_, rows_left, room);
    if (cut) Close(*batch);
    // An empty slab takes any row that passed CheckShape, so this happens once at most.
    if (take.rows == 0) {
      if (batch->writers == 0) claimed.displaced = batch;
      continue;
    }
    task.entries_left_ -= take.entries;
    task.holds_.fetch_add(1, std::memory_order_relaxed);
    claimed.batch = batch;
    claimed.part = batch->parts.size();
    claimed.segment = *batch->slab->Claim(take.rows, take.entries, task.work_.wants);
    batch->parts.push_back({&task, claimed.segment, task.cursor_->row(), nanoseconds(0)});
    ++batch->writers;
    return claimed;
  }
}

void Batcher::Pack(ScoreTask& task, const Claimed& claimed) {
  const Clock::time_point begin = Clock::now();
  const absl::StatusOr<uint64_t> ignored =
      PackRows(task.work_.csr, *task.cursor_, *claimed.batch->slab, claimed.segment);
  if (ignored.ok()) {
    task.ignored_ += *ignored;
  } else {
    task.Fail(ignored.status());
  }
  Commit(*claimed.batch, claimed.part, Clock::now() - begin);
}

void Batcher::Commit(Batch& batch, size_t part, nanoseconds pack) {
  {
    const std::lock_guard lock(mutex_);
    batch.parts[part].pack = pack;
    --batch.writers;
    // Nobody else may join once a device waits for it; else a stream of writers could keep the batch open for ever.
    // Asked under the lock: a device that becomes free later finds the batch in TakeCommitted.
    if (!batch.closed && engine_.HasIdleDevice()) Close(batch);
    if (!batch.closed || batch.writers != 0) return;
  }
  Send(batch, Where::kAnywhere);
}

void Batcher::Send(Batch& batch, Where where) {
  batch.slab->Seal();
  batch.sealed = Clock::now();
  engine_.Submit(std::move(batch.slab), batch, where);
}

void Batcher::OnBatchDone(Batch& batch, SlabHandle slab) {
  // The device first: it works on the next batch while this one's results are handed out.
  Batch* next = nullptr;
  {
    const std::lock_guard lock(mutex_);
    next = TakeCommitted();
  }
  if (next != nullptr) Send(*next, Where::kEngineThreads);

  Deliver(batch, *slab);

  slab.reset();
  {
    const std::lock_guard lock(mutex_);
    batch.parts.clear();
    batch.closed = false;
    free_.push_back(&batch);
  }
  ResumeWaiting();
}

void Batcher::Deliver(const Batch& batch, const Slab& slab) {
  const Clock::time_point now = Clock::now();
  observer_.OnBatch(slab);
  for (const Batch::Part& part : batch.parts) {
    ScoreTask& task = *part.task;
    const nanoseconds queue = std::max(nanoseconds(0), nanoseconds(batch.sealed - task.work_.received) - part.pack);
    observer_.OnSegment(slab.device, queue, part.pack);
    if (!slab.status.ok()) task.Fail(slab.status);
    if (!task.failed()) task.OnRows(slab, part.segment, part.first_row);
    {
      const std::lock_guard lock(task.mutex_);
      TaskTimes& times = task.times_;
      for (size_t stage = 0; stage < kStages; ++stage) times.stages.time[stage] += slab.stages.time[stage];
      times.stages[Stage::kPack] += part.pack;
      times.stages[Stage::kQueue] = std::max(times.stages[Stage::kQueue], queue);
      times.device = slab.device;
      times.batch_rows = slab.rows();
      ++times.batches;
      times.results_ready = now;
    }
    task.Release();
  }
}

Batcher::Batch* Batcher::FindOpen(const ScoreTask& task) {
  for (Batch* batch : open_) {
    if (batch->slab->model() == task.work_.model && batch->slab->has_values() == task.work_.has_values) return batch;
  }
  return nullptr;
}

Batcher::Batch* Batcher::Open(const ScoreTask& task) {
  SlabHandle slab = engine_.TakeSlab();
  if (slab == nullptr) return nullptr;
  if (free_.empty()) {
    batches_.push_back(std::make_unique<Batch>(*this));
    free_.push_back(batches_.back().get());
  }
  Batch* batch = free_.back();
  free_.pop_back();
  slab->Open(task.work_.model, task.work_.has_values);
  batch->slab = std::move(slab);
  open_.push_back(batch);
  return batch;
}

void Batcher::Close(Batch& batch) {
  batch.closed = true;
  open_.erase(std::find(open_.begin(), open_.end(), &batch));
}

// The oldest open batch that nobody is writing, closed, if a device is idle. Batches that are being written need no
// look: their writers ask for an idle device when they are done.
Batcher::Batch* Batcher::TakeCommitted() {
  if (open_.empty() || !engine_.HasIdleDevice()) return nullptr;
  for (Batch* batch : open_) {
    if (batch->writers != 0) continue;
    Close(*batch);
    return batch;
  }
  return nullptr;
}

// Resumes the first in line, and all others who can share its batch. Claim asks for a slab and gets in line under the
// lock, so whoever came too early for a slab that was given back just now is in the line.
void Batcher::ResumeWaiting() {
  std::vector<ScoreTask*> tasks;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return;
    const ScoreTask::Work& first = waiting_.front()->work_;
    const auto shares = [&first](const ScoreTask* task) {
      return task->work_.model == first.model && task->work_.has_values == first.has_values;
    };
    const auto rest = std::stable_partition(waiting_.begin(), waiting_.end(), shares);
    tasks.assign(waiting_.begin(), rest);
    waiting_.erase(waiting_.begin(), rest);
  }
  for (ScoreTask* task : tasks) task->Resume();
}

}  // namespace widelane
