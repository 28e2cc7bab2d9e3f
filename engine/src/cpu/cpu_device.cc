#include "cpu/cpu_device.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cpu/cpu_features.h"
#include "cpu/thread_pool.h"
#include "cut_rows.h"
#include "widelane/engine/usable_cores.h"

namespace widelane {

namespace {

using cpu::KernelModel;
using cpu::RowKernels;
using cpu::ThreadPool;

// Work ((entries + rows) x outputs) a thread takes at once: some 30 us, far more than handing it over costs.
constexpr uint64_t kChunkWork = 1 << 16;

// Space for one row's sums and raw numbers, kept as large as the largest model so far.
struct Scratch {
  std::vector<int64_t> sums;
  std::vector<double> raw;

  void Fit(uint32_t outputs) {
    if (sums.size() >= outputs) return;
    sums.resize(outputs);
    raw.resize(outputs);
  }
};

// The weights stay where the model has them.
class CpuModel : public ResidentModel {
 public:
  explicit CpuModel(const Model& model)
      : kernel_model{model.weights(), model.bias().data(), model.scale().data(), model.max_weight(),
                     model.outputs(), model.weight_type(), model.link()} {}

  const KernelModel kernel_model;
};

// One thread pool and its scratch, shared by the lanes.
struct CpuShared {
  CpuShared(RowKernels row_kernels, size_t threads)
      : kernels(row_kernels), pool(threads - 1), helper_scratch(pool.helpers()) {}

  const RowKernels kernels;
  ThreadPool pool;
  std::vector<Scratch> helper_scratch;  // [pool.helpers()], each used by its own thread
};

class CpuLane : public Lane {
 public:
  explicit CpuLane(CpuShared& shared) : shared_(shared) {}

  absl::Status Score(const Model& model, const ResidentModel& resident, const BatchView& batch, uint32_t first_row,
                     uint32_t rows, StageTimes& stages) override {
    const auto start = std::chrono::steady_clock::now();
    const KernelModel& kernel_model = static_cast<const CpuModel&>(resident).kernel_model;
    scratch_.Fit(model.outputs());
    const uint64_t work = WorkOfRows(batch, first_row, rows) * model.outputs();
    if (work < 2 * kChunkWork || rows < 2 || shared_.pool.helpers() == 0) {
      Rows(kernel_model, batch, first_row, rows, scratch_);
    } else {
      InChunks(kernel_model, batch, first_row, rows, work);
    }
    stages[Stage::kCompute] += std::chrono::steady_clock::now() - start;
    return absl::OkStatus();
  }

 private:
  void Rows(const KernelModel& model, const BatchView& batch, uint32_t first, uint32_t rows, Scratch& scratch) {
    shared_.kernels.score_rows(model, batch, first, rows, scratch.sums.data(), scratch.raw.data());
  }

  void InChunks(const KernelModel& model, const BatchView& batch, uint32_t first_row, uint32_t rows, uint64_t work) {
    const uint64_t chunks = std::min<uint64_t>(rows, work / kChunkWork);
    shared_.pool.ForEachChunk(chunks, [&](size_t worker, size_t chunk) {
      Scratch& scratch = worker == 0 ? scratch_ : shared_.helper_scratch[worker - 1];
      scratch.Fit(model.outputs);
      const uint32_t begin = PartBegin(batch, first_row, rows, chunk, chunks);
      const uint32_t end = PartBegin(batch, first_row, rows, chunk + 1, chunks);
      if (begin < end) Rows(model, batch, begin, end - begin, scratch);
    });
  }

  CpuShared& shared_;
  Scratch scratch_;
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
  CpuDevice(RowKernels kernels, size_t threads) : threads_(threads), shared_(kernels, threads) {
    info_.id = "cpu";
    info_.name =
        absl::StrCat(ProcessorName(), ", ", kernels.name, ", ", threads, threads == 1 ? " thread" : " threads");
  }

  const DeviceInfo& info() const override { return info_; }
  size_t lanes() const override { return threads_; }
  absl::StatusOr<std::unique_ptr<Lane>> MakeLane() override { return std::make_unique<CpuLane>(shared_); }
  absl::StatusOr<std::unique_ptr<ResidentModel>> Load(const Model& model) override {
    return std::make_unique<CpuModel>(model);
  }

 private:
  const size_t threads_;
  DeviceInfo info_;
  CpuShared shared_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(const EngineOptions& options) {
  const absl::StatusOr<RowKernels> kernels = cpu::ChooseRowKernels(options.instruction_set);
  if (!kernels.ok()) return kernels.status();
  return std::make_unique<CpuDevice>(*kernels, options.cpu_threads == 0 ? UsableCores() : options.cpu_threads);
}

}  // namespace widelane
