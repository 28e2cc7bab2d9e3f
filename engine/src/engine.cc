#include "widelane/engine/engine.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cpu/cpu_device.h"
#include "cut_rows.h"
#include "engine_impl.h"
#include "spin.h"
#include "thread_pool.h"

namespace widelane {

namespace {

absl::Status CheckOptions(const EngineOptions& options) {
  const auto within = [](const char* name, uint64_t value, uint64_t least, uint64_t most) {
    if (value >= least && value <= most) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", value, " is not between ", least, " and ", most));
  };
  using Limits = EngineLimits;
  for (const absl::Status& status :
       {within("slab rows", options.slab.rows, 1, Limits::kMaxSlabSize),
        within("slab entries", options.slab.entries, 1, Limits::kMaxSlabSize),
        within("slab results", options.slab.results, 1, Limits::kMaxSlabSize),
        within("slab context sums", options.slab.context_sums, 0, Limits::kMaxSlabSize),
        within("slabs", options.slabs, 1, Limits::kMaxSlabs), within("lanes", options.lanes, 1, Limits::kMaxLanes),
        within("cpu threads", options.cpu_threads, 0, Limits::kMaxCpuThreads),
        within("lane bytes", options.lane_bytes, Limits::kMinLaneBytes, UINT64_MAX),
        within("spin microseconds", options.spin_microseconds.value_or(0), 0, Limits::kMaxSpinMicroseconds)}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

void ReturnSlab::operator()(Slab* slab) const { pool->Return(slab); }

Engine::Impl::Impl(const EngineOptions& options, Backends backends)
    : options_(options),
      spin_(SpinTime(options)),
      backends_(std::move(backends)),
      meters_(backends_.devices.size()),
      busy_told_(backends_.devices.size()) {
  for (const std::unique_ptr<Device>& device : backends_.devices) infos_.push_back(device->info());
}

Engine::Impl::~Impl() {
  std::unique_lock<std::mutex> lock(mutex_);
  finished_.wait(lock, [this] { return unfinished_ == 0; });
}

absl::Status Engine::Impl::Start() {
  if (absl::Status status = pool_.Fill(options_.slabs, options_.slab, *backends_.memory); !status.ok()) return status;
  if (absl::Status status = trial_pool_.Fill(1, options_.slab, *backends_.memory); !status.ok()) return status;
  tasks_ = std::vector<BatchTask>(options_.slabs + 1);
  for (BatchTask& task : tasks_) {
    task.pieces.reserve(infos_.size());
    free_tasks_.push_back(&task);
  }
  if (absl::Status status = MakeCpuLanes(); !status.ok()) return status;
  return MakeGpuQueues();
}

absl::Status Engine::Impl::MakeCpuLanes() {
  Device& cpu = *backends_.devices[0];
  const size_t threads = CpuThreads();
  // One of each more than threads: those on which models are tried.
  for (size_t i = 0; i <= threads; ++i) {
    absl::StatusOr<std::unique_ptr<Lane>> alone = MakeInlineLane(cpu);
    if (!alone.ok()) return alone.status();
    absl::StatusOr<std::unique_ptr<Lane>> helped = cpu.MakeLane();
    if (!helped.ok()) return helped.status();
    if (i == threads) {
      trial_alone_ = *std::move(alone);
      trial_helped_ = *std::move(helped);
      break;
    }
    inline_lanes_.push_back(alone->get());
    caller_lanes_.push_back(*std::move(alone));
    pool_lanes_.push_back(helped->get());
    caller_lanes_.push_back(*std::move(helped));
  }
  absl::StatusOr<std::unique_ptr<CpuQueue>> queue =
      CpuQueue::Create(cpu, meters_[0].busy, tasks_.size(), {&OnCpuPieceDone, this});
  if (!queue.ok()) return queue.status();
  cpu_queue_ = *std::move(queue);
  return absl::OkStatus();
}

// At once, since making a GPU's context and buffers takes long.
absl::Status Engine::Impl::MakeGpuQueues() {
  const size_t gpus = backends_.devices.size() - 1;
  if (gpus > kMaxGpus) return absl::InvalidArgumentError(absl::StrCat("devices: more than ", kMaxGpus, " GPUs"));
  std::vector<absl::StatusOr<std::unique_ptr<GpuQueue>>> made(gpus);
  std::vector<std::thread> makers;
  for (size_t i = 0; i < gpus; ++i) {
    makers.emplace_back([this, i, &made] {
      made[i] = GpuQueue::Create(
          {.device = i + 1, .resident = i + 1, .meters = {&meters_[i + 1], 1}, .cpu_meter = &meters_[0]},
          *backends_.devices[i + 1], *backends_.devices[0], options_.slabs, spin_, {&OnGpuPieceDone, this});
    });
  }
  for (std::thread& maker : makers) maker.join();
  for (absl::StatusOr<std::unique_ptr<GpuQueue>>& queue : made) {
    if (!queue.ok()) return queue.status();
    gpu_queues_.push_back(*std::move(queue));
  }
  return absl::OkStatus();
}

absl::Status Engine::Impl::MakeShardedQueue() {
  const std::lock_guard<std::mutex> lock(sharded_mutex_);
  if (sharded_owner_ != nullptr) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<GpuQueue>> queue =
      GpuQueue::Create({.device = 1,
                        .resident = infos_.size(),
                        .meters = absl::MakeSpan(meters_).subspan(1),
                        .cpu_meter = &meters_[0],
                        .first_lane = options_.lanes},
                       *backends_.sharded, *backends_.devices[0], tasks_.size(), spin_, {&OnGpuPieceDone, this});
  if (!queue.ok()) return queue.status();
  sharded_owner_ = *std::move(queue);
  sharded_queue_.store(sharded_owner_.get(), std::memory_order_release);
  return absl::OkStatus();
}

bool Engine::Impl::HasFailed(size_t device) const { return device > 0 && gpu_queues_[device - 1]->failed(); }

uint64_t Engine::Impl::device_failures() const {
  const GpuQueue* const sharded = sharded_queue_.load(std::memory_order_acquire);
  uint64_t failures = sharded == nullptr ? 0 : sharded->failures();
  for (const std::unique_ptr<GpuQueue>& queue : gpu_queues_) failures += queue->failures();
  return failures;
}

EngineUse Engine::Impl::use() const {
  EngineUse use;
  use.slabs = pool_.size();
  use.slabs_in_use = pool_.in_use();
  const GpuQueue* const sharded = sharded_queue_.load(std::memory_order_acquire);
  const std::lock_guard<std::mutex> lock(use_mutex_);
  for (size_t i = 0; i < infos_.size(); ++i) {
    const DeviceMeter& meter = meters_[i];
    const DeviceWeights weights = backends_.devices[i]->weights();
    busy_told_[i] = std::max(busy_told_[i], meter.busy.Busy(std::chrono::steady_clock::now()));
    DeviceUse& device = use.devices.emplace_back();
    device.lanes = i == 0 ? CpuThreads() : gpu_queues_[i - 1]->lanes() + (sharded == nullptr ? 0 : sharded->lanes());
    device.lanes_busy = meter.busy.all();
    device.busy = busy_told_[i];
    device.bytes_in = meter.bytes_in.load(std::memory_order_relaxed);
    device.bytes_out = meter.bytes_out.load(std::memory_order_relaxed);
    device.weight_bytes = weights.bytes;
    device.weight_uploads = weights.uploads;
  }
  return use;
}

std::unique_ptr<Slab> Engine::Impl::MakeSlab(const SlabOptions& options) const {
  absl::StatusOr<std::unique_ptr<Slab>> slab = Slab::Create(options, *solo_memory_);
  return slab.ok() ? *std::move(slab) : nullptr;
}

absl::StatusOr<std::unique_ptr<Lane>> Engine::Impl::MakeSoloLane() { return MakeInlineLane(*backends_.devices[0]); }

bool Engine::Impl::ScoreSolo(Lane& lane, Slab& slab, uint64_t callers) {
  if (!IsFirstHere(*slab.model(), slab.kind(), slab.rows(), slab.entries(), callers)) return false;
  const auto now = std::chrono::steady_clock::now();
  BusyMeter& busy = meters_[0].busy;
  if (busy.Begin(BusyMeter::Who::kCaller, now) >= CpuThreads()) {
    busy.End(BusyMeter::Who::kCaller, now);
    return false;
  }
  slab.stages = {};
  slab.route = Route::kInline;
  ScoreOn(lane, slab, now);
  busy.End(BusyMeter::Who::kCaller, slab.ended);
  return true;
}

void Engine::Impl::Submit(SlabHandle slab, BatchListener& listener, Where where, Route route, uint64_t callers) {
  slab->status = absl::OkStatus();
  slab->stages = {};
  slab->device = -1;
  slab->route = Route::kInline;
  if (slab->rows() == 0) {
    if (where == Where::kAnywhere) return listener.OnBatchDone(std::move(slab));
    slab->route = Route::kPool;
    return QueueOnCpu(std::move(slab), listener, 0);
  }
  const LoadedModel& model = *slab->model();
  RouteRequest request = BatchRequest(model, slab->kind(), slab->rows(), slab->entries(), where, route, callers);
  if (CallerIsFirst(model.cost_table(), request) && ScoreHere(inline_lanes_, slab, listener, 0)) return;

  const UsableGpus gpus = GpusFor(model);
  request.gpus = absl::MakeConstSpan(gpus.loads.data(), gpus.count);
  const RouteChoice choice = ChooseRoute(model.cost_table(), request);
  slab->route = choice.route;
  switch (choice.route) {
    case Route::kInline:
      if (ScoreHere(inline_lanes_, slab, listener, 0)) return;
      break;
    case Route::kMapped:
    case Route::kCopied:
      for (size_t i = 0; i < gpus.count; ++i) {
        if (gpus.loads[i].device != choice.device) continue;
        return QueueOnGpu(std::move(slab), listener, *gpus.queues[i], choice.route == Route::kMapped,
                          choice.predicted_ns, where == Where::kAnywhere);
      }
      break;
    case Route::kAllGpus:
      return QueueOnGpus(std::move(slab), listener, gpus, request, where == Where::kAnywhere);
    case Route::kPool:
    case Route::kAuto:
      if (where == Where::kAnywhere && choice.predicted_ns <= kLongestOnCallerNs &&
          ScoreHere(pool_lanes_, slab, listener, choice.predicted_ns)) {
        return;
      }
      break;
  }
  slab->route = Route::kPool;
  QueueOnCpu(std::move(slab), listener, choice.predicted_ns);
}

// Null when as many threads as there are cores are at it, those with lanes of their own among them.
Lane* Engine::Impl::TakeLane(FreeLanes& lanes, std::chrono::steady_clock::time_point now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (lanes.empty() || !HasThreadToSpare()) return nullptr;
  Lane* lane = lanes.back();
  lanes.pop_back();
  meters_[0].busy.Begin(BusyMeter::Who::kCaller, now);
  return lane;
}

void Engine::Impl::ReturnLane(FreeLanes& lanes, Lane* lane) {
  const std::lock_guard<std::mutex> lock(mutex_);
  lanes.push_back(lane);
}

void Engine::Impl::ScoreOn(Lane& lane, Slab& slab, std::chrono::steady_clock::time_point begun) {
  const LaneWork work{.model = &slab.model()->model(),
                      .resident = slab.model()->resident(0),
                      .batch = &slab.view(),
                      .first_row = 0,
                      .rows = slab.rows()};
  slab.begun = begun;
  slab.status = ScoreAndTell(lane, work, slab, slab.stages);
  slab.ended = std::chrono::steady_clock::now();
  slab.device = 0;
}

bool Engine::Impl::ScoreHere(FreeLanes& lanes, SlabHandle& slab, BatchListener& listener, double predicted_ns) {
  const auto now = std::chrono::steady_clock::now();
  Lane* const lane = TakeLane(lanes, now);
  if (lane == nullptr) return false;
  AddPoolBacklog(predicted_ns);
  ScoreOn(*lane, *slab, now);
  AddPoolBacklog(-predicted_ns);
  meters_[0].busy.End(BusyMeter::Who::kCaller, slab->ended);
  ReturnLane(lanes, lane);
  listener.OnBatchDone(std::move(slab));
  return true;
}

void Engine::Impl::QueueOnCpu(SlabHandle slab, BatchListener& listener, double predicted_ns) {
  const uint32_t rows = slab->rows();
  BatchTask& task = TakeTask(std::move(slab), listener);
  task.pieces_left.store(1, std::memory_order_relaxed);
  AddPoolBacklog(predicted_ns);
  cpu_queue_->Push({.task = &task, .rows = rows, .predicted_ns = predicted_ns});
}

void Engine::Impl::QueueOnGpu(SlabHandle slab, BatchListener& listener, GpuQueue& queue, bool mapped,
                              double predicted_ns, bool start_here) {
  const uint32_t rows = slab->rows();
  BatchTask& task = TakeTask(std::move(slab), listener);
  task.pieces_left.store(1, std::memory_order_relaxed);
  queue.Push({.task = &task, .rows = rows, .mapped = mapped, .predicted_ns = predicted_ns}, start_here);
}

// Cuts the batch between groups of rows, by the GPUs' shares.
void Engine::Impl::QueueOnGpus(SlabHandle slab, BatchListener& listener, const UsableGpus& gpus,
                               const RouteRequest& request, bool start_here) {
  constexpr uint64_t kParts = 1 << 20;
  const Shares shares = ShareOverGpus(slab->model()->cost_table(), request);
  const BatchView& batch = slab->view();
  BatchTask& task = TakeTask(std::move(slab), listener);
  std::array<GpuQueue*, kMaxGpus> queues{};
  task.pieces.clear();
  uint32_t begin = 0;
  double share = 0;
  for (size_t i = 0; i < gpus.count && begin < batch.rows; ++i) {
    share += shares.gpu[i];
    const auto part = static_cast<uint64_t>(std::min(1.0, share) * kParts);
    uint32_t end = PartBegin(batch, 0, batch.rows, part, kParts);
    end = std::min(batch.rows, (end + kGroupRows / 2) / kGroupRows * kGroupRows);
    if (i + 1 == gpus.count) end = batch.rows;
    if (end <= begin) continue;
    const double predicted_ns = std::max(0.0, shares.end_ns - gpus.loads[i].backlog_ns);
    queues[task.pieces.size()] = gpus.queues[i];
    task.pieces.push_back({.task = &task, .first_row = begin, .rows = end - begin, .predicted_ns = predicted_ns});
    begin = end;
  }
  // All are counted before the first runs; once the last is pushed the task may be another batch's. The others' threads
  // wake up while this one starts the first.
  const size_t count = task.pieces.size();
  task.pieces_left.store(static_cast<uint32_t>(count), std::memory_order_relaxed);
  for (size_t i = count; i-- > 0;) queues[i]->Push(task.pieces[i], i == 0 && start_here);
}

// There is one for each slab, and each submitted slab has one at most.
BatchTask& Engine::Impl::TakeTask(SlabHandle slab, BatchListener& listener) {
  BatchTask* task = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++unfinished_;
    task = free_tasks_.back();
    free_tasks_.pop_back();
  }
  task->slab = std::move(slab);
  task->listener = &listener;
  return *task;
}

void Engine::Impl::OnCpuPieceDone(void* context, const Piece& piece) {
  Impl& impl = *static_cast<Impl*>(context);
  impl.AddPoolBacklog(-piece.predicted_ns);
  impl.CountDown(piece);
}

void Engine::Impl::OnGpuPieceDone(void* context, const Piece& piece) { static_cast<Impl*>(context)->CountDown(piece); }

// The piece that counts to zero sees what all others wrote.
void Engine::Impl::CountDown(const Piece& piece) {
  BatchTask& task = *piece.task;
  if (task.pieces_left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  SlabHandle slab = std::move(task.slab);
  BatchListener& listener = *task.listener;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_tasks_.push_back(&task);
  }
  Finish(std::move(slab), listener);
}

void Engine::Impl::Finish(SlabHandle slab, BatchListener& listener) {
  listener.OnBatchDone(std::move(slab));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--unfinished_ == 0) finished_.notify_all();
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  absl::StatusOr<Backends> backends = MakeBackends(options);
  if (!backends.ok()) return backends.status();
  return CreateWithDevices(options, *std::move(backends));
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::CreateWithDevices(const EngineOptions& options, Backends backends) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  if (backends.memory == nullptr) backends.memory = MakePlainHostMemory();
  auto impl = std::make_unique<Impl>(options, std::move(backends));
  if (absl::Status status = impl->Start(); !status.ok()) return status;
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

const EngineOptions& Engine::options() const { return impl_->options(); }
const std::vector<DeviceInfo>& Engine::devices() const { return impl_->infos(); }
bool Engine::uses_gpus() const { return impl_->infos().size() > 1; }
const std::string& Engine::fallback_reason() const { return impl_->fallback_reason(); }
const std::string& Engine::left_out() const { return impl_->left_out(); }
uint64_t Engine::device_failures() const { return impl_->device_failures(); }
EngineUse Engine::use() const { return impl_->use(); }

CsrLimits Engine::limits() const {
  const SlabOptions& slab = impl_->options().slab;
  return {slab.rows, slab.entries, std::min<uint64_t>(slab.entries, kMaxRowEntries)};
}

absl::StatusOr<std::shared_ptr<const LoadedModel>> Engine::Load(std::shared_ptr<const Model> model) {
  return impl_->Load(std::move(model));
}

SlabHandle Engine::TakeSlab() { return impl_->pool().Take(); }

Start Engine::HowItStarts(const LoadedModel& model, const BatchKind& kind, uint64_t rows, uint64_t entries, Where where,
                          uint64_t callers) const {
  return impl_->HowItStarts(model, kind, rows, entries, where, callers);
}

std::unique_ptr<Slab> Engine::MakeSlab(const SlabOptions& options) {
  std::unique_ptr<Slab> slab = impl_->MakeSlab(options);
  absl::StatusOr<std::unique_ptr<Lane>> lane = impl_->MakeSoloLane();
  if (slab == nullptr || !lane.ok()) return nullptr;
  slab->solo_lane_ = *std::move(lane);
  return slab;
}

bool Engine::IsFirstHere(const LoadedModel& model, const BatchKind& kind, uint64_t rows, uint64_t entries,
                         uint64_t callers) const {
  return impl_->IsFirstHere(model, kind, rows, entries, callers);
}

bool Engine::ScoreHere(Slab& slab, uint64_t callers) { return impl_->ScoreSolo(*slab.solo_lane_, slab, callers); }

void Engine::Submit(SlabHandle slab, BatchListener& listener, Where where, Route route, uint64_t callers) {
  impl_->Submit(std::move(slab), listener, where, route, callers);
}

absl::StatusOr<CsrReport> Engine::ScoreCsr(const std::shared_ptr<const LoadedModel>& model, const CsrView& csr,
                                           const CsrResults& results, Route route, const RowContexts* contexts) {
  return impl_->ScoreCsr(model, csr, results, route, contexts);
}

}  // namespace widelane
