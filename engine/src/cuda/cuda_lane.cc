#include "cuda/cuda_lane.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_error.h"
#include "numeric.h"

namespace widelane::cuda {
namespace {

// Moves what `made` holds into `to`.
template <typename T>
absl::Status Keep(absl::StatusOr<T> made, T& to) {
  if (!made.ok()) return made.status();
  to = *std::move(made);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaLane>> CudaLane::Create(const SlabOptions& slab, int device) {
  std::unique_ptr<CudaLane> lane(new CudaLane(slab, device));
  if (absl::Status status = lane->Allocate(); !status.ok()) return status;
  return lane;
}

absl::Status CudaLane::Allocate() {
  const size_t rows = slab_.rows;
  const size_t pieces = MaxPieces(slab_.entries);
  absl::Status status = Keep(CreateDeviceBuffer<uint32_t>(rows + 1, device_), row_begin_);
  status.Update(Keep(CreateDeviceBuffer<float>(rows, device_), row_max_));
  status.Update(Keep(CreateDeviceBuffer<uint32_t>(slab_.entries, device_), indices_));
  status.Update(Keep(CreateDeviceBuffer<float>(slab_.entries, device_), values_));
  status.Update(Keep(CreateDeviceBuffer<Piece>(pieces, device_), pieces_));
  status.Update(Keep(CreateDeviceBuffer<uint32_t>(pieces, device_), long_rows_));
  status.Update(Keep(CreateDeviceBuffer<int64_t>(slab_.results, device_), long_sums_));
  status.Update(Keep(CreateDeviceBuffer<double>(slab_.results, device_), raw_));
  status.Update(Keep(CreateDeviceBuffer<float>(slab_.results, device_), scores_));
  status.Update(Keep(CreatePinnedBuffer<Piece>(pieces, device_), host_pieces_));
  status.Update(Keep(CreatePinnedBuffer<uint32_t>(pieces, device_), host_long_rows_));
  for (Event* event : {&started_, &transferred_in_, &computed_, &transferred_out_}) {
    status.Update(Keep(CreateEvent(device_), *event));
  }
  status.Update(Keep(CreateStream(device_), stream_));
  return status;
}

absl::Status CudaLane::Score(const Model& model, const ResidentModel& resident, const BatchView& batch,
                             uint32_t first_row, uint32_t rows, StageTimes& stages) {
  if (rows == 0 || (batch.scores == nullptr && batch.raw == nullptr)) return absl::OkStatus();
  const uint32_t first_entry = batch.row_begin[first_row];
  const Part part = {.batch = batch,
                     .first_row = first_row,
                     .rows = rows,
                     .first_entry = first_entry,
                     .entries = batch.row_begin[first_row + rows] - first_entry,
                     .first_result = size_t{first_row} * model.outputs(),
                     .results = size_t{rows} * model.outputs()};
  if (absl::Status status = CheckFits(part); !status.ok()) return status;

  const auto begin = std::chrono::steady_clock::now();
  absl::Status status = Enqueue(model, static_cast<const CudaResident&>(resident), part);
  stages[Stage::kLaunch] += std::chrono::steady_clock::now() - begin;
  if (!status.ok()) {
    // What has been started uses the batch's memory, which the caller gives away on return.
    (void)cudaStreamSynchronize(stream_.get());
    return status;
  }
  if (status = Wait(); !status.ok()) return status;
  return AddStages(stages);
}

// The engine cuts batches to fit; memory is not to be overwritten should it ever fail to.
absl::Status CudaLane::CheckFits(const Part& part) const {
  if (part.rows <= slab_.rows && part.entries <= slab_.entries && part.results <= slab_.results) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat("a part of ", part.rows, " rows, ", part.entries, " entries and ",
                                          part.results, " results is beyond the lane's ", slab_.rows, ", ",
                                          slab_.entries, " and ", slab_.results));
}

absl::Status CudaLane::Enqueue(const Model& model, const CudaResident& resident, const Part& part) {
  if (absl::Status status = Record(started_); !status.ok()) return status;
  if (absl::Status status = EnqueueInputs(part); !status.ok()) return status;
  // Long rows are looked for while the copies run.
  ScoreArguments arguments = Arguments(model, resident, part);
  arguments.cut = CutLongRows(arguments.plan, part.batch.row_begin + part.first_row, part.rows, host_pieces_.data(),
                              host_long_rows_.data());
  if (absl::Status status = EnqueuePieces(arguments.cut); !status.ok()) return status;
  if (absl::Status status = Record(transferred_in_); !status.ok()) return status;
  WIDELANE_CUDA_RETURN_IF_ERROR(LaunchScore(arguments, stream_.get()), device_);
  if (absl::Status status = Record(computed_); !status.ok()) return status;
  if (absl::Status status = EnqueueResults(part); !status.ok()) return status;
  return Record(transferred_out_);
}

absl::Status CudaLane::EnqueueInputs(const Part& part) {
  const BatchView& batch = part.batch;
  absl::Status status = CopyIn(batch.row_begin + part.first_row, size_t{part.rows} + 1, row_begin_.data());
  if (batch.row_max != nullptr) status.Update(CopyIn(batch.row_max + part.first_row, part.rows, row_max_.data()));
  if (part.entries == 0) return status;
  if (batch.indices16 != nullptr) {
    status.Update(
        CopyIn(batch.indices16 + part.first_entry, part.entries, reinterpret_cast<uint16_t*>(indices_.data())));
  } else {
    status.Update(CopyIn(batch.indices32 + part.first_entry, part.entries, indices_.data()));
  }
  if (batch.values != nullptr) status.Update(CopyIn(batch.values + part.first_entry, part.entries, values_.data()));
  return status;
}

absl::Status CudaLane::EnqueuePieces(const PieceCount& cut) {
  if (cut.pieces == 0) return absl::OkStatus();
  absl::Status status = CopyIn(host_pieces_.data(), cut.pieces, pieces_.data());
  status.Update(CopyIn(host_long_rows_.data(), cut.long_rows, long_rows_.data()));
  return status;
}

ScoreArguments CudaLane::Arguments(const Model& model, const CudaResident& resident, const Part& part) const {
  const BatchView& batch = part.batch;
  ScoreArguments arguments;
  arguments.plan = PlanSums(model.outputs());
  arguments.weights = resident.weights();
  arguments.bias = resident.bias();
  arguments.scale = resident.scale();
  arguments.max_weight = model.max_weight();
  arguments.outputs = model.outputs();
  arguments.weight_type = model.weight_type();
  arguments.link = model.link();
  arguments.rows = part.rows;
  arguments.first_entry = part.first_entry;
  arguments.row_begin = row_begin_.data();
  if (batch.indices16 != nullptr) {
    arguments.indices16 = reinterpret_cast<const uint16_t*>(indices_.data());
  } else {
    arguments.indices32 = indices_.data();
  }
  arguments.values = batch.values == nullptr ? nullptr : values_.data();
  arguments.row_max = batch.row_max == nullptr ? nullptr : row_max_.data();
  arguments.pieces = pieces_.data();
  arguments.long_rows = long_rows_.data();
  arguments.long_sums = long_sums_.data();
  arguments.scores = batch.scores == nullptr ? nullptr : scores_.data();
  const bool scores_need_raw = batch.scores != nullptr && !numeric::IsPointwise(model.link());
  arguments.raw = batch.raw != nullptr || scores_need_raw ? raw_.data() : nullptr;
  return arguments;
}

absl::Status CudaLane::EnqueueResults(const Part& part) {
  const BatchView& batch = part.batch;
  absl::Status status;
  if (batch.scores != nullptr) {
    status.Update(CopyOut(scores_.data(), part.results, batch.scores + part.first_result));
  }
  if (batch.raw != nullptr) status.Update(CopyOut(raw_.data(), part.results, batch.raw + part.first_result));
  return status;
}

absl::Status CudaLane::Wait() {
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventSynchronize(transferred_out_.get()), device_);
  return absl::OkStatus();
}

absl::Status CudaLane::AddStages(StageTimes& stages) const {
  const struct {
    Stage stage;
    const Event& from;
    const Event& to;
  } spans[] = {{Stage::kTransferIn, started_, transferred_in_},
               {Stage::kCompute, transferred_in_, computed_},
               {Stage::kTransferOut, computed_, transferred_out_}};
  for (const auto& span : spans) {
    float milliseconds = 0;
    WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventElapsedTime(&milliseconds, span.from.get(), span.to.get()), device_);
    const std::chrono::duration<float, std::milli> time(milliseconds);
    stages[span.stage] += std::chrono::duration_cast<std::chrono::nanoseconds>(time);
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status CudaLane::CopyIn(const T* from, size_t count, T* to) {
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(to, from, count * sizeof(T), cudaMemcpyHostToDevice, stream_.get()),
                                device_);
  return absl::OkStatus();
}

template <typename T>
absl::Status CudaLane::CopyOut(const T* from, size_t count, T* to) {
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(to, from, count * sizeof(T), cudaMemcpyDeviceToHost, stream_.get()),
                                device_);
  return absl::OkStatus();
}

absl::Status CudaLane::Record(const Event& event) {
  WIDELANE_CUDA_RETURN_IF_ERROR(cudaEventRecord(event.get(), stream_.get()), device_);
  return absl::OkStatus();
}

}  // namespace widelane::cuda
