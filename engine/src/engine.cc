#include "widelane/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "backends.h"
#include "cut_rows.h"
#include "dispatch.h"
#include "probe.h"
#include "slab_pool.h"

namespace widelane {

namespace {

uint64_t WorkOf(const Slab& slab) { return WorkOfRows(slab.view(), 0, slab.rows()) * slab.model()->model().outputs(); }

absl::Status CheckOptions(const EngineOptions& options) {
  const auto positive = [](const char* name, uint64_t value, uint64_t most) {
    if (value >= 1 && value <= most) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", value, " is not between 1 and ", most));
  };
  for (const absl::Status& status : {positive("slab rows", options.slab.rows, EngineLimits::kMaxSlabSize),
                                     positive("slab entries", options.slab.entries, EngineLimits::kMaxSlabSize),
                                     positive("slab results", options.slab.results, EngineLimits::kMaxSlabSize),
                                     positive("slabs", options.slabs, EngineLimits::kMaxSlabs),
                                     positive("lanes", options.lanes, EngineLimits::kMaxLanes),
                                     positive("piece work", options.piece_work, UINT64_MAX)}) {
    if (!status.ok()) return status;
  }
  if (options.cpu_threads > EngineLimits::kMaxCpuThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("cpu threads: ", options.cpu_threads, " is more than ", EngineLimits::kMaxCpuThreads));
  }
  return absl::OkStatus();
}

}  // namespace

LoadedModel::LoadedModel(std::shared_ptr<const Model> model, std::vector<std::unique_ptr<ResidentModel>> residents)
    : model_(std::move(model)), residents_(std::move(residents)) {}
LoadedModel::~LoadedModel() = default;

void ReturnSlab::operator()(Slab* slab) const { pool->Return(slab); }

class Engine::Impl {
 public:
  Impl(const EngineOptions& options, std::vector<std::unique_ptr<Device>> devices, std::unique_ptr<HostMemory> memory,
       std::string fallback_reason)
      : options_(options),
        fallback_reason_(std::move(fallback_reason)),
        memory_(std::move(memory)),
        devices_(std::move(devices)) {
    for (const std::unique_ptr<Device>& device : devices_) infos_.push_back(device->info());
  }

  ~Impl() {
    std::unique_lock<std::mutex> lock(mutex_);
    finished_.wait(lock, [this] { return unfinished_ == 0; });
  }

  absl::Status Start() {
    if (absl::Status status = pool_.Fill(options_.slabs, options_.slab, *memory_); !status.ok()) return status;
    tasks_ = std::vector<BatchTask>(options_.slabs);
    for (BatchTask& task : tasks_) free_tasks_.push_back(&task);

    Device& cpu = *devices_[0];
    for (size_t i = 0; i < cpu.lanes(); ++i) {
      absl::StatusOr<std::unique_ptr<Lane>> lane = cpu.MakeLane();
      if (!lane.ok()) return lane.status();
      inline_lanes_.push_back(*std::move(lane));
      free_inline_.push_back(inline_lanes_.back().get());
    }
    cpu_group_ = std::make_unique<LaneGroup>(std::vector<LaneGroup::Member>{{0, &cpu}}, nullptr, options_.slabs,
                                             &TaskDone, this);
    if (absl::Status status = cpu_group_->WaitForLanes(); !status.ok()) return status;
    if (devices_.size() > 1) {
      std::vector<LaneGroup::Member> gpus;
      size_t lanes = 0;
      for (size_t i = 1; i < devices_.size(); ++i) {
        gpus.push_back({i, devices_[i].get()});
        lanes += devices_[i]->lanes();
      }
      gpu_group_ =
          std::make_unique<LaneGroup>(gpus, &cpu, options_.slabs * std::max<size_t>(1, lanes), &TaskDone, this);
      if (absl::Status status = gpu_group_->WaitForLanes(); !status.ok()) return status;
    }
    for (BatchTask& task : tasks_) task.pieces.reserve(gpu_group_ == nullptr ? 1 : gpu_group_->lanes());
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<const LoadedModel>> Load(std::shared_ptr<const Model> model) {
    if (model->outputs() > options_.slab.results) {
      return absl::InvalidArgumentError(absl::StrCat("the model has ", model->outputs(),
                                                     " outputs, a slab holds results for ", options_.slab.results,
                                                     " (slab results)"));
    }
    std::vector<std::unique_ptr<ResidentModel>> residents(devices_.size());
    const absl::Status uploaded = OnEachDevice(0, [&](size_t i) {
      if (HasFailed(i)) return absl::OkStatus();
      absl::StatusOr<std::unique_ptr<ResidentModel>> resident = devices_[i]->Load(*model);
      if (!resident.ok()) return resident.status();
      residents[i] = *std::move(resident);
      return absl::OkStatus();
    });
    if (!uploaded.ok()) return uploaded;
    auto loaded = std::make_shared<const LoadedModel>(std::move(model), std::move(residents));
    const absl::Status probed = OnEachDevice(1, [&](size_t i) {
      if (HasFailed(i)) return absl::OkStatus();
      return ProbeDevice(loaded, *devices_[i], i, *devices_[0], options_.slab, *memory_);
    });
    if (!probed.ok()) return probed;
    return loaded;
  }

  bool HasIdleDevice() const {
    if (gpu_group_ != nullptr) return gpu_group_->load() < gpu_group_->lanes();
    return cpu_group_->load() + inline_running_.load(std::memory_order_acquire) < cpu_group_->lanes();
  }

  void Submit(SlabHandle slab, BatchListener& listener, Where where) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++unfinished_;
    }
    const bool empty = slab->rows() == 0;
    if (empty && where == Where::kAnywhere) return Finish(std::move(slab), listener);
    const uint64_t work = WorkOf(*slab);
    const bool on_gpu = gpu_group_ != nullptr && !empty &&
                        (options_.devices.kind != DeviceSelection::Kind::kAuto || work >= options_.gpu_work);
    if (!on_gpu && where == Where::kAnywhere && work < options_.inline_work) {
      if (Lane* lane = TakeInlineLane(); lane != nullptr) return ScoreHere(std::move(slab), listener, *lane);
    }
    BatchTask& task = TakeTask();
    task.slab = std::move(slab);
    task.listener = &listener;
    if (on_gpu) {
      PushPieces(task, work);
    } else {
      task.pieces_left.store(1, std::memory_order_relaxed);
      cpu_group_->Push({&task, 0, task.slab->rows()});
    }
  }

  const EngineOptions options_;
  const std::string fallback_reason_;
  std::string left_out_;  // set by Create only
  std::vector<DeviceInfo> infos_;
  SlabPool& pool() { return pool_; }
  uint64_t device_failures() const { return gpu_group_ == nullptr ? 0 : gpu_group_->failures(); }

 private:
  // A device that failed gets no batches, so a model needs no place on it.
  bool HasFailed(size_t device) const { return gpu_group_ != nullptr && gpu_group_->Failed(device); }

  // Runs `body(i)` for each device from `first` on, at once, each on a thread of its own; the first error.
  template <typename Body>
  absl::Status OnEachDevice(size_t first, const Body& body) {
    std::vector<absl::Status> statuses(devices_.size());
    std::vector<std::thread> threads;
    for (size_t i = first; i < devices_.size(); ++i) threads.emplace_back([&, i] { statuses[i] = body(i); });
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) {
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Cuts the batch by rows into pieces of about equal work, as many as there are lanes if it is large.
  void PushPieces(BatchTask& task, uint64_t work) {
    const BatchView& batch = task.slab->view();
    const uint64_t most = std::min<uint64_t>(gpu_group_->lanes(), batch.rows);
    const uint64_t parts = std::clamp<uint64_t>(work / options_.piece_work, 1, most);
    std::vector<Piece>& pieces = task.pieces;
    pieces.clear();
    for (uint64_t part = 0; part < parts; ++part) {
      const uint32_t begin = PartBegin(batch, 0, batch.rows, part, parts);
      const uint32_t end = PartBegin(batch, 0, batch.rows, part + 1, parts);
      if (begin < end) pieces.push_back({&task, begin, end - begin});
    }
    // All are counted before the first runs; once the last is pushed the task may be another batch's.
    const size_t count = pieces.size();
    task.pieces_left.store(static_cast<uint32_t>(count), std::memory_order_relaxed);
    for (size_t i = 0; i < count; ++i) gpu_group_->Push(pieces[i]);
  }

  void ScoreHere(SlabHandle slab, BatchListener& listener, Lane& lane) {
    slab->status =
        lane.Score(slab->model()->model(), slab->model()->resident(0), slab->view(), 0, slab->rows(), slab->stages);
    slab->device = 0;
    inline_running_.fetch_sub(1, std::memory_order_acq_rel);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      free_inline_.push_back(&lane);
    }
    Finish(std::move(slab), listener);
  }

  static void TaskDone(void* context, BatchTask& task) {
    Impl& impl = *static_cast<Impl*>(context);
    SlabHandle slab = std::move(task.slab);
    BatchListener& listener = *task.listener;
    {
      const std::lock_guard<std::mutex> lock(impl.mutex_);
      impl.free_tasks_.push_back(&task);
    }
    impl.Finish(std::move(slab), listener);
  }

  void Finish(SlabHandle slab, BatchListener& listener) {
    listener.OnBatchDone(std::move(slab));
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--unfinished_ == 0) finished_.notify_all();
  }

  Lane* TakeInlineLane() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_inline_.empty()) return nullptr;
    Lane* lane = free_inline_.back();
    free_inline_.pop_back();
    inline_running_.fetch_add(1, std::memory_order_acq_rel);
    return lane;
  }

  // There is one for each slab, and each submitted slab has one at most.
  BatchTask& TakeTask() {
    const std::lock_guard<std::mutex> lock(mutex_);
    BatchTask& task = *free_tasks_.back();
    free_tasks_.pop_back();
    return task;
  }

  std::unique_ptr<HostMemory> memory_;
  std::vector<std::unique_ptr<Device>> devices_;
  SlabPool pool_;
  std::vector<BatchTask> tasks_;
  std::atomic<size_t> inline_running_{0};  // batches being scored on their callers' threads

  std::mutex mutex_;
  std::condition_variable finished_;
  size_t unfinished_ = 0;  // batches submitted whose listeners have not returned
  std::vector<BatchTask*> free_tasks_;
  std::vector<std::unique_ptr<Lane>> inline_lanes_;
  std::vector<Lane*> free_inline_;

  // Last: their threads use everything above.
  std::unique_ptr<LaneGroup> cpu_group_;
  std::unique_ptr<LaneGroup> gpu_group_;
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  absl::StatusOr<Backends> backends = MakeBackends(options);
  if (!backends.ok()) return backends.status();
  absl::StatusOr<std::unique_ptr<Engine>> engine = CreateWithDevices(
      options, std::move(backends->devices), std::move(backends->memory), std::move(backends->fallback_reason));
  if (engine.ok()) (*engine)->impl_->left_out_ = std::move(backends->left_out);
  return engine;
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::CreateWithDevices(const EngineOptions& options,
                                                                  std::vector<std::unique_ptr<Device>> devices,
                                                                  std::unique_ptr<HostMemory> memory,
                                                                  std::string fallback_reason) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  if (memory == nullptr) memory = MakePlainHostMemory();
  auto impl = std::make_unique<Impl>(options, std::move(devices), std::move(memory), std::move(fallback_reason));
  if (absl::Status status = impl->Start(); !status.ok()) return status;
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

const EngineOptions& Engine::options() const { return impl_->options_; }
const std::vector<DeviceInfo>& Engine::devices() const { return impl_->infos_; }
bool Engine::uses_gpus() const { return impl_->infos_.size() > 1; }
const std::string& Engine::fallback_reason() const { return impl_->fallback_reason_; }
const std::string& Engine::left_out() const { return impl_->left_out_; }
uint64_t Engine::device_failures() const { return impl_->device_failures(); }

CsrLimits Engine::limits() const {
  const SlabOptions& slab = impl_->options_.slab;
  return {slab.rows, slab.entries, std::min<uint64_t>(slab.entries, kMaxRowEntries)};
}

absl::StatusOr<std::shared_ptr<const LoadedModel>> Engine::Load(std::shared_ptr<const Model> model) {
  return impl_->Load(std::move(model));
}

SlabHandle Engine::TakeSlab() { return impl_->pool().Take(); }
bool Engine::HasIdleDevice() const { return impl_->HasIdleDevice(); }

void Engine::Submit(SlabHandle slab, BatchListener& listener, Where where) {
  impl_->Submit(std::move(slab), listener, where);
}

}  // namespace widelane
