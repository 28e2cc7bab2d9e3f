#include "cuda/cusparse_lane.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/chunks.h"
#include "cuda/cuda_error.h"
#include "cuda/current_device.h"
#include "cuda/cusparse_kernels.h"
#include "cuda/cusparse_product.h"
#include "cuda/input_buffers.h"
#include "cuda/kernels.h"
#include "cuda/lane_work.h"
#include "cuda/owners.h"
#include "cuda/resident.h"
#include "cuda/score_arguments.h"

namespace widelane::cuda {
namespace {

using std::chrono::nanoseconds;

// Rows x outputs of one product: more go in several, which costs cuSPARSE time.
constexpr size_t kLeastResults = size_t{1} << 24;

struct DestroyHandle {
  const CusparseLibrary* library = nullptr;
  void operator()(cusparseHandle_t handle) const { (void)library->Destroy(handle); }
};
using Handle = std::unique_ptr<std::remove_pointer_t<cusparseHandle_t>, DestroyHandle>;

class CusparseLane : public Lane {
 public:
  CusparseLane(const EngineOptions& options, const CusparseLibrary& library, int device)
      : options_(options),
        library_(library),
        device_(device),
        results_(std::max<size_t>(kLeastResults, options.slab.results)) {}
  absl::Status Allocate();

  absl::Status Start(const LaneWork& work) override;
  absl::Status Finish(StageTimes& stages) override;
  CopiedBytes copied(size_t /*gpu*/) const override { return copied_; }

 private:
  absl::Status Score(const LaneWork& work);
  absl::Status CopyEntries(const BatchView& batch, uint32_t first, uint32_t count);
  // Rows [row, row + rows) of the batch, whose copied entries begin with number `first_entry`.
  absl::Status ScoreRows(const LaneWork& work, uint32_t row, uint32_t rows, uint32_t first_entry);
  absl::StatusOr<int> FastestAlgorithm(const ProductShape& shape, const ResidentModel* resident);
  // Makes the sums; the time of the product, without its preparation.
  absl::StatusOr<nanoseconds> Multiply(const ProductShape& shape, int algorithm);
  absl::Status FinishRows(const LaneWork& work, uint32_t row, uint32_t rows);
  absl::Status GrowWorkspace(size_t bytes);
  template <typename T>
  absl::Status CopyIn(const T* from, size_t count, void* to);
  absl::Status Synchronize() {
    WIDELANE_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream_.get()), device_);
    return absl::OkStatus();
  }

  const EngineOptions options_;
  const CusparseLibrary& library_;
  const int device_;
  const size_t results_;
  StageTimes times_;  // of the work between Start and Finish
  CopiedBytes copied_;
  // By model and size, as a power of two.
  std::map<std::pair<const ResidentModel*, int>, int> fastest_;

  DeviceBuffer<uint16_t> narrow_indices_;
  DeviceBuffer<uint16_t> narrow_values_;
  DeviceBuffer<int32_t> offsets_;
  DeviceBuffer<int32_t> columns_;
  DeviceBuffer<float> values_;
  DeviceBuffer<float> sums_;
  DeviceBuffer<double> raw_;
  DeviceBuffer<std::byte> scratch_;
  DeviceBuffer<std::byte> workspace_;
  Event from_;
  Event to_;
  Stream stream_;
  Handle handle_;  // last, so that it is destroyed first
};

absl::Status CusparseLane::Allocate() {
  const size_t entries = options_.slab.entries;
  absl::Status status = Keep(CreateDeviceBuffer<uint16_t>(entries, device_), narrow_indices_);
  status.Update(Keep(CreateDeviceBuffer<uint16_t>(entries, device_), narrow_values_));
  status.Update(Keep(CreateDeviceBuffer<int32_t>(size_t{options_.slab.rows} + 1, device_), offsets_));
  status.Update(Keep(CreateDeviceBuffer<int32_t>(entries, device_), columns_));
  status.Update(Keep(CreateDeviceBuffer<float>(entries, device_), values_));
  status.Update(Keep(CreateDeviceBuffer<float>(results_, device_), sums_));
  status.Update(Keep(CreateDeviceBuffer<double>(results_, device_), raw_));
  status.Update(Keep(CreateDeviceBuffer<std::byte>(ScratchBytes(options_.slab.results), device_), scratch_));
  status.Update(Keep(CreateTimedEvent(device_), from_));
  status.Update(Keep(CreateTimedEvent(device_), to_));
  status.Update(Keep(CreateStream(device_), stream_));
  if (!status.ok()) return status;
  cusparseHandle_t handle = nullptr;
  status = library_.ToStatus(library_.Create(&handle), "cusparseCreate");
  if (!status.ok()) return status;
  handle_ = Handle(handle, DestroyHandle{&library_});
  return library_.ToStatus(library_.SetStream(handle, stream_.get()), "cusparseSetStream");
}

absl::Status CusparseLane::Start(const LaneWork& work) {
  times_ = {};
  copied_ = {};
  if (WantsNothing(work)) return absl::OkStatus();
  if (absl::Status status = CheckFits(options_.slab, work); !status.ok()) return status;
  const ScopedDevice scope(device_);
  if (!scope.status().ok()) return scope.status();
  if (options_.check_pinned) DieUnlessAllPinned(*work.batch);
  copied_ = {BytesOfInput(work), BytesOfResults(work)};
  absl::Status status = Score(work);
  if (!status.ok()) (void)cudaStreamSynchronize(stream_.get());
  return status;
}

absl::Status CusparseLane::Finish(StageTimes& stages) {
  for (const Stage stage : {Stage::kTransferIn, Stage::kCompute}) stages[stage] += times_[stage];
  return absl::OkStatus();
}

absl::Status CusparseLane::Score(const LaneWork& work) {
  const uint32_t first_entry = work.batch->row_begin[work.first_row];
  if (absl::Status status = CopyEntries(*work.batch, first_entry, EntriesOf(work)); !status.ok()) return status;
  const size_t step = results_ / work.model->outputs();
  for (uint32_t done = 0; done < work.rows;) {
    const auto rows = static_cast<uint32_t>(std::min<size_t>(step, work.rows - done));
    if (absl::Status status = ScoreRows(work, work.first_row + done, rows, first_entry); !status.ok()) return status;
    done += rows;
  }
  return absl::OkStatus();
}

absl::Status CusparseLane::CopyEntries(const BatchView& batch, uint32_t first, uint32_t count) {
  const cudaStream_t stream = stream_.get();
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventRecord(from_.get(), stream), device_);
  absl::Status status;
  if (batch.indices16 != nullptr) status = CopyIn(batch.indices16 + first, count, narrow_indices_.data());
  if (batch.indices32 != nullptr) status = CopyIn(batch.indices32 + first, count, columns_.data());
  if (batch.values16 != nullptr) status.Update(CopyIn(batch.values16 + first, count, narrow_values_.data()));
  if (batch.values32 != nullptr) status.Update(CopyIn(batch.values32 + first, count, values_.data()));
  if (!status.ok()) return status;
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventRecord(to_.get(), stream), device_);
  if (batch.indices16 != nullptr) {
    WIDELANE_CUDA_RETURN_IF_ERROR(LaunchWidenIndices(narrow_indices_.data(), count, columns_.data(), stream), device_);
  }
  if (batch.values16 != nullptr) {
    WIDELANE_CUDA_RETURN_IF_ERROR(LaunchWidenValues(narrow_values_.data(), count, values_.data(), stream), device_);
  } else if (batch.values32 == nullptr) {
    WIDELANE_CUDA_RETURN_IF_ERROR(LaunchFillOnes(count, values_.data(), stream), device_);
  }
  if (status = Synchronize(); !status.ok()) return status;
  const absl::StatusOr<nanoseconds> time = TimeBetween(from_.get(), to_.get(), device_);
  if (!time.ok()) return time.status();
  times_[Stage::kTransferIn] += *time;
  return absl::OkStatus();
}

absl::Status CusparseLane::ScoreRows(const LaneWork& work, uint32_t row, uint32_t rows, uint32_t first_entry) {
  const uint32_t* row_begin = work.batch->row_begin + row;
  const auto* resident = static_cast<const CudaResident*>(work.resident);
  WIDELANE_CUDA_RETURN_IF_ERROR(LaunchRebaseOffsets(row_begin, size_t{rows} + 1, offsets_.data(), stream_.get()),
                                device_);
  const uint32_t begin = row_begin[0] - first_entry;
  ProductShape shape;
  shape.rows = rows;
  shape.features = static_cast<int64_t>(work.model->features()) + 1;
  shape.outputs = work.model->outputs();
  shape.entries = row_begin[rows] - row_begin[0];
  shape.offsets = offsets_.data();
  shape.columns = columns_.data() + begin;
  shape.values = values_.data() + begin;
  shape.weights = const_cast<float*>(resident->float_weights());  // cuSPARSE has no other type in every version
  shape.sums = sums_.data();
  if (shape.entries == 0) {
    const size_t bytes = size_t{rows} * work.model->outputs() * sizeof(float);
    WIDELANE_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(sums_.data(), 0, bytes, stream_.get()), device_);
    return FinishRows(work, row, rows);
  }
  const absl::StatusOr<int> algorithm = FastestAlgorithm(shape, work.resident);
  if (!algorithm.ok()) return algorithm.status();
  const absl::StatusOr<nanoseconds> time = Multiply(shape, *algorithm);
  if (!time.ok()) return time.status();
  times_[Stage::kCompute] += *time;
  return FinishRows(work, row, rows);
}

// Algorithms that refuse the shape are left out. The first run of each only warms up.
absl::StatusOr<int> CusparseLane::FastestAlgorithm(const ProductShape& shape, const ResidentModel* resident) {
  const std::pair key(resident, static_cast<int>(std::bit_width(static_cast<uint64_t>(shape.entries))));
  if (const auto known = fastest_.find(key); known != fastest_.end()) return known->second;
  std::optional<std::pair<nanoseconds, int>> best;
  absl::Status last;
  for (int algorithm = 0; algorithm < CusparseProduct::Algorithms(shape.outputs); ++algorithm) {
    last.Update(Multiply(shape, algorithm).status());
    const absl::StatusOr<nanoseconds> time = Multiply(shape, algorithm);
    if (time.ok() && (!best.has_value() || *time < best->first)) best = {*time, algorithm};
  }
  if (!best.has_value()) return last;
  fastest_[key] = best->second;
  return best->second;
}

absl::StatusOr<nanoseconds> CusparseLane::Multiply(const ProductShape& shape, int algorithm) {
  const absl::StatusOr<CusparseProduct> product = CusparseProduct::Create(library_, handle_.get(), shape);
  if (!product.ok()) return product.status();
  const absl::StatusOr<size_t> bytes = product->WorkspaceBytes(algorithm);
  if (!bytes.ok()) return bytes.status();
  absl::Status status = GrowWorkspace(*bytes);
  if (status.ok()) status = product->Prepare(algorithm, workspace_.data());
  if (!status.ok()) return status;
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventRecord(from_.get(), stream_.get()), device_);
  if (status = product->Run(algorithm, workspace_.data()); !status.ok()) return status;
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventRecord(to_.get(), stream_.get()), device_);
  if (status = Synchronize(); !status.ok()) return status;
  return TimeBetween(from_.get(), to_.get(), device_);
}

absl::Status CusparseLane::FinishRows(const LaneWork& work, uint32_t row, uint32_t rows) {
  const Model& model = *work.model;
  const BatchView host = FromRow(*work.batch, row, model.outputs());
  ScoreArguments arguments = static_cast<const CudaResident*>(work.resident)->Arguments(model);
  SetRows(*work.batch, *work.batch, row, rows, 0, arguments);
  WIDELANE_CUDA_RETURN_IF_ERROR(LaunchRawFromSums(arguments, sums_.data(), raw_.data(), host.raw, stream_.get()),
                                device_);
  if (host.scores != nullptr || host.best > 0) {
    SetResults(host, arguments);
    arguments.raw = nullptr;
    arguments.scratch = scratch_.data();
    arguments.scratch_bytes = scratch_.size();
    WIDELANE_CUDA_RETURN_IF_ERROR(LaunchFinishRaw(arguments, raw_.data(), stream_.get()), device_);
  }
  return Synchronize();
}

absl::Status CusparseLane::GrowWorkspace(size_t bytes) {
  if (bytes <= workspace_.size() && workspace_.data() != nullptr) return absl::OkStatus();
  return Keep(CreateDeviceBuffer<std::byte>(bytes, device_), workspace_);
}

template <typename T>
absl::Status CusparseLane::CopyIn(const T* from, size_t count, void* to) {
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(to, from, count * sizeof(T), cudaMemcpyHostToDevice, stream_.get()),
                                device_);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Lane>> MakeCusparseLane(const EngineOptions& options, int device) {
  const absl::StatusOr<const CusparseLibrary*> library = CusparseLibrary::Get();
  if (!library.ok()) return library.status();
  auto lane = std::make_unique<CusparseLane>(options, **library, device);
  if (absl::Status status = lane->Allocate(); !status.ok()) return status;
  return lane;
}

}  // namespace widelane::cuda
