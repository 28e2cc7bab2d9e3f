// The way of a model: onto the devices, through the probe, and measured.

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "batch_waiter.h"
#include "engine_impl.h"
#include "probe.h"
#include "thread_pool.h"

namespace widelane {

namespace {

constexpr std::chrono::milliseconds kMeasureBudget(1000);
// What a batch is said to take before anybody knows.
constexpr double kTrialNs = 1e6;

// Runs `body(i)` for each i of [first, end) at once, each on a thread of its own.
template <typename Body>
std::vector<absl::Status> OnEach(size_t first, size_t end, const Body& body) {
  std::vector<absl::Status> statuses(end);
  std::vector<std::thread> threads;
  for (size_t i = first; i < end; ++i) threads.emplace_back([&, i] { statuses[i] = body(i); });
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

absl::Status FirstError(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

LoadedModel::LoadedModel(std::shared_ptr<const Model> model, std::vector<std::unique_ptr<ResidentModel>> residents,
                         bool sharded)
    : model_(std::move(model)), residents_(std::move(residents)), sharded_(sharded) {}
LoadedModel::~LoadedModel() = default;

void LoadedModel::SetCosts(std::unique_ptr<const CostTable> table) {
  cost_table_ = std::move(table);
  costs_ = cost_table_->Lines();
}

absl::StatusOr<std::shared_ptr<const LoadedModel>> Engine::Impl::Load(std::shared_ptr<const Model> model) {
  if (model->outputs() > options_.slab.results) {
    return absl::InvalidArgumentError(absl::StrCat("the model has ", model->outputs(),
                                                   " outputs, a slab holds results for ", options_.slab.results,
                                                   " (slab results)"));
  }
  bool sharded = false;
  absl::StatusOr<std::vector<std::unique_ptr<ResidentModel>>> residents = Upload(*model, sharded);
  if (!residents.ok()) return residents.status();
  const auto loaded = std::make_shared<LoadedModel>(model, *std::move(residents), sharded);
  loaded->SetCosts(RoughCosts(*model, infos_.size(), CpuThreads(), sharded));
  const bool measures = options_.measure_costs && model->features() > 0;
  if (infos_.size() == 1 && !measures) return loaded;

  // One at a time: two that measure at once would measure each other.
  const std::lock_guard<std::mutex> lock(trial_mutex_);
  SlabHandle slab = trial_pool_.Take();
  // Another library's sums have other bits.
  if (options_.kernel == SumKernel::kExact) {
    if (absl::Status status = Probe(loaded, slab); !status.ok()) return status;
  }
  if (!measures) return loaded;
  absl::StatusOr<std::unique_ptr<const CostTable>> costs = Measure(loaded, slab);
  if (!costs.ok()) return costs.status();
  if ((*costs)->Lines().empty()) return loaded;  // slabs are too small for any batch worth measuring
  // Batches of this model are only those of Measure so far, and they are done.
  loaded->SetCosts(*std::move(costs));
  return loaded;
}

// A device that failed gets no batches, so a model needs no place on it.
absl::StatusOr<std::vector<std::unique_ptr<ResidentModel>>> Engine::Impl::Upload(const Model& model, bool& sharded) {
  const size_t devices = backends_.devices.size();
  std::vector<std::unique_ptr<ResidentModel>> residents(devices + 1);  // the last: cut over the GPUs
  const auto load = [&](Device& device, size_t place) {
    absl::StatusOr<std::unique_ptr<ResidentModel>> resident = device.Load(model);
    if (!resident.ok()) return resident.status();
    residents[place] = *std::move(resident);
    return absl::OkStatus();
  };
  const std::vector<absl::Status> statuses =
      OnEach(0, devices, [&](size_t i) { return HasFailed(i) ? absl::OkStatus() : load(*backends_.devices[i], i); });
  const absl::Status status = FirstError(statuses);
  if (status.ok()) return residents;
  if (!absl::IsResourceExhausted(status) || backends_.sharded == nullptr) return status;
  for (size_t i = 1; i < devices; ++i) residents[i] = nullptr;  // their memory is needed
  if (absl::Status made = MakeShardedQueue(); !made.ok()) return made;
  if (absl::Status cut = load(*backends_.sharded, devices); !cut.ok()) {
    return absl::Status(cut.code(), absl::StrCat(status.message(), "; cut over all GPUs: ", cut.message()));
  }
  sharded = true;
  return residents;
}

absl::Status Engine::Impl::Probe(const std::shared_ptr<const LoadedModel>& model, SlabHandle& slab) {
  const UsableGpus gpus = GpusFor(*model);
  for (size_t i = 0; i < gpus.count; ++i) {
    GpuQueue* const queue = gpus.queues[i];
    const auto on_gpu = [&](SlabHandle& of, bool mapped) { return RunOnGpus(of, {&queue, 1}, mapped, of->rows()); };
    const auto on_cpu = [&](SlabHandle& of) { return RunOnCpu(*trial_alone_, of, of->rows()); };
    const std::string& id = infos_[queue->place().device].id;
    if (absl::Status status = ProbeDevice(model, id, options_.slab, slab, {on_gpu, on_cpu}); !status.ok())
      return status;
  }
  return absl::OkStatus();
}

std::vector<MeasuredRoute> Engine::Impl::PlacesOf(const LoadedModel& model) const {
  std::vector<MeasuredRoute> places = {{Route::kInline, 0, {}}, {Route::kPool, 0, {}}};
  const UsableGpus gpus = GpusFor(model);
  const size_t first_gpu = places.size();
  for (size_t i = 0; i < gpus.count; ++i) {
    const size_t device = gpus.loads[i].device;
    const auto same = std::find_if(places.begin() + static_cast<std::ptrdiff_t>(first_gpu), places.end(),
                                   [&](const auto& place) { return infos_[place.device].name == infos_[device].name; });
    if (same != places.end()) {
      same->same_devices.push_back(device);
      (same + 1)->same_devices.push_back(device);
      continue;
    }
    places.push_back({Route::kMapped, device, {}});
    places.push_back({Route::kCopied, device, {}});
  }
  if (gpus.count > 1) places.push_back({Route::kAllGpus, gpus.loads[0].device, {}});
  return places;
}

absl::StatusOr<std::unique_ptr<const CostTable>> Engine::Impl::Measure(const std::shared_ptr<const LoadedModel>& model,
                                                                       SlabHandle& slab) {
  const UsableGpus gpus = GpusFor(*model);
  const auto run = [&](SlabHandle& of, const MeasuredRoute& place, uint32_t rows) {
    if (place.route == Route::kInline) return RunOnCpu(*trial_alone_, of, rows);
    if (place.route == Route::kPool) return RunOnCpu(*trial_helped_, of, rows);
    if (place.route == Route::kAllGpus) return RunOnGpus(of, {gpus.queues.data(), gpus.count}, false, rows);
    const auto queue = std::find_if(gpus.queues.begin(), gpus.queues.begin() + gpus.count,
                                    [&](const GpuQueue* of_gpu) { return of_gpu->place().device == place.device; });
    return RunOnGpus(of, {&*queue, 1}, place.route == Route::kMapped, rows);
  };
  return MeasureCosts(model, PlacesOf(*model), slab, kMeasureBudget, run);
}

absl::Status Engine::Impl::RunOnCpu(Lane& lane, SlabHandle& slab, uint32_t rows) {
  StageTimes stages;
  return lane.Score({.model = &slab->model()->model(),
                     .resident = slab->model()->resident(0),
                     .batch = &slab->view(),
                     .first_row = 0,
                     .rows = rows},
                    stages);
}

// Rows [0, rows), in equal parts where there are several GPUs. A GPU's error is told instead of mended.
absl::Status Engine::Impl::RunOnGpus(SlabHandle& slab, absl::Span<GpuQueue* const> queues, bool mapped, uint32_t rows) {
  if (rows == 0) return absl::OkStatus();
  SpinningWaiter waiter(20 * spin_);
  slab->status = absl::OkStatus();
  BatchTask& task = TakeTask(std::move(slab), waiter);
  const uint64_t groups = (uint64_t{rows} + kGroupRows - 1) / kGroupRows;
  const auto begin_of = [&](size_t part) {
    return static_cast<uint32_t>(std::min<uint64_t>(rows, groups * part / queues.size() * kGroupRows));
  };
  task.pieces.clear();
  std::array<GpuQueue*, kMaxGpus> used{};
  for (size_t i = 0; i < queues.size(); ++i) {
    const uint32_t count = begin_of(i + 1) - begin_of(i);
    if (count == 0) continue;
    used[task.pieces.size()] = queues[i];
    task.pieces.push_back({.task = &task,
                           .first_row = begin_of(i),
                           .rows = count,
                           .mapped = mapped,
                           .trial = true,
                           .predicted_ns = kTrialNs});
  }
  const size_t count = task.pieces.size();
  task.pieces_left.store(static_cast<uint32_t>(count), std::memory_order_relaxed);
  for (size_t i = count; i-- > 0;) used[i]->Push(task.pieces[i], i == 0);
  slab = waiter.Wait();
  return slab->status;
}

}  // namespace widelane
