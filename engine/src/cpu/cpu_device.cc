#include "cpu/cpu_device.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/cpu_features.h"
#include "cut_rows.h"

namespace widelane {

namespace {

using cpu::KernelModel;
using cpu::RowKernels;

// Work ((entries + rows) x outputs) a thread takes at once: about 1 us for one output, more than taking it costs. On 16
// cores 1,000 rows of 40 take 6.7 us in chunks of 2,000 and 9.0 in chunks of 6,000.
constexpr uint64_t kChunkWork = 2500;
// Larger batches are cut into this many chunks a thread, so that a thread that came late does not hold up the others.
constexpr uint64_t kChunksPerThread = 4;

// Weights up to this size stay in a core's own caches.
constexpr size_t kCacheBytes = 2 << 20;

// A thread's scratch, kept as large as the largest model so far.
class Scratch {
 public:
  cpu::KernelScratch For(uint32_t outputs) {
    const size_t size = cpu::ScratchSize(outputs);
    if (sums_.size() < size) {
      sums_.resize(size);
      raw_.resize(size);
      shares_.resize(size);
    }
    return {sums_.data(), raw_.data(), shares_.data()};
  }

 private:
  std::vector<uint64_t> sums_;
  std::vector<double> raw_;
  std::vector<double> shares_;
};

// Of the models that are loaded.
struct CpuWeights {
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> loads{0};
};

// The weights stay where the model has them.
class CpuModel : public ResidentModel {
 public:
  CpuModel(const Model& model, std::shared_ptr<CpuWeights> weights)
      : kernel_model{model.weights(), model.bias().data(), model.scale().data(), model.max_weight(),
                     model.outputs(), model.weight_type(), model.link(),         model.weight_bytes() > kCacheBytes},
        bytes_(model.weight_bytes()),
        weights_(std::move(weights)) {
    weights_->bytes += bytes_;
    ++weights_->loads;
  }
  ~CpuModel() override { weights_->bytes -= bytes_; }

  const KernelModel kernel_model;

 private:
  const uint64_t bytes_;
  const std::shared_ptr<CpuWeights> weights_;
};

// The thread pool and its scratch, shared by the lanes.
struct CpuShared {
  CpuShared(RowKernels row_kernels, std::shared_ptr<ThreadPool> threads)
      : kernels(row_kernels), pool(std::move(threads)), helper_scratch(pool->helpers()) {}

  const RowKernels kernels;
  const std::shared_ptr<ThreadPool> pool;
  std::vector<Scratch> helper_scratch;  // [pool->helpers()], each used by its own thread
};

class CpuLane : public Lane {
 public:
  CpuLane(CpuShared& shared, bool alone) : shared_(shared), alone_(alone || shared.pool->helpers() == 0) {}

  absl::Status Start(const LaneWork& work) override {
    const auto start = std::chrono::steady_clock::now();
    const KernelModel& model = static_cast<const CpuModel&>(*work.resident).kernel_model;
    const uint64_t chunks = alone_ ? 1 : ChunksOf(work, model.outputs);
    if (chunks < 2) {
      Rows(model, *work.batch, work.first_row, work.rows, scratch_);
    } else {
      InChunks(model, work, chunks);
    }
    time_ = std::chrono::steady_clock::now() - start;
    return absl::OkStatus();
  }

  absl::Status Finish(StageTimes& stages) override {
    stages[Stage::kCompute] += time_;
    return absl::OkStatus();
  }

 private:
  uint64_t ChunksOf(const LaneWork& work, uint32_t outputs) const {
    const uint64_t most = kChunksPerThread * (shared_.pool->helpers() + 1);
    return std::min(
        {uint64_t{work.rows}, WorkOfRows(*work.batch, work.first_row, work.rows) * outputs / kChunkWork, most});
  }

  void Rows(const KernelModel& model, const BatchView& batch, uint32_t first, uint32_t rows, Scratch& scratch) {
    shared_.kernels.score_rows(model, batch, first, rows, scratch.For(model.outputs));
  }

  void InChunks(const KernelModel& model, const LaneWork& work, uint64_t chunks) {
    shared_.pool->ForEachChunk(chunks, [&](size_t worker, size_t chunk) {
      const uint32_t begin = PartBegin(*work.batch, work.first_row, work.rows, chunk, chunks);
      const uint32_t end = PartBegin(*work.batch, work.first_row, work.rows, chunk + 1, chunks);
      if (begin == end) return;
      Rows(model, *work.batch, begin, end - begin, worker == 0 ? scratch_ : shared_.helper_scratch[worker - 1]);
    });
  }

  CpuShared& shared_;
  const bool alone_;
  Scratch scratch_;
  std::chrono::nanoseconds time_{0};
};

// The processor's name as Linux tells it.
std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

class CpuDevice : public Device {
 public:
  CpuDevice(RowKernels kernels, std::shared_ptr<ThreadPool> pool) : shared_(kernels, std::move(pool)) {
    const size_t threads = shared_.pool->helpers() + 1;
    info_.id = "cpu";
    info_.name =
        absl::StrCat(ProcessorName(), ", ", kernels.name, ", ", threads, threads == 1 ? " thread" : " threads");
  }

  const DeviceInfo& info() const override { return info_; }
  // One that keeps all cores busy, and one whose caller is already awake when the first is done.
  size_t lanes() const override { return 2; }
  absl::StatusOr<std::unique_ptr<Lane>> MakeLane() override { return std::make_unique<CpuLane>(shared_, false); }
  std::unique_ptr<Lane> MakeInlineLane() { return std::make_unique<CpuLane>(shared_, true); }
  absl::StatusOr<std::unique_ptr<ResidentModel>> Load(const Model& model) override {
    return std::make_unique<CpuModel>(model, weights_);
  }
  DeviceWeights weights() const override { return {weights_->bytes, weights_->loads}; }

 private:
  DeviceInfo info_;
  CpuShared shared_;
  const std::shared_ptr<CpuWeights> weights_ = std::make_shared<CpuWeights>();
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(const EngineOptions& options, std::shared_ptr<ThreadPool> pool) {
  const absl::StatusOr<RowKernels> kernels = cpu::ChooseRowKernels(options.instruction_set);
  if (!kernels.ok()) return kernels.status();
  return std::make_unique<CpuDevice>(*kernels, std::move(pool));
}

absl::StatusOr<std::unique_ptr<Lane>> MakeInlineLane(Device& cpu) {
  auto* device = dynamic_cast<CpuDevice*>(&cpu);
  if (device == nullptr) return cpu.MakeLane();
  return device->MakeInlineLane();
}

}  // namespace widelane
