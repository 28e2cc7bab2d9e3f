#include "cuda/kernels.h"

#include <algorithm>

#include "cuda/score_call.h"
#include "numeric.h"

// Returns a failure to the caller.
#define WIDELANE_RETURN_IF_FAILED(expression)                                       \
  do {                                                                              \
    if (const cudaError_t code_ = (expression); code_ != cudaSuccess) return code_; \
  } while (false)

namespace widelane::cuda {
namespace {

template <typename T>
T* Advance(T* array, size_t elements) {
  return array == nullptr ? nullptr : array + elements;
}

size_t SizeOf(WeightType type) {
  if (type == WeightType::kFloat32) return 4;
  return type == WeightType::kInt8 ? 1 : 2;
}

cudaError_t ShapeOf(const ScoreArguments& a, SumShape& shape) {
  int device = 0;
  int multiprocessors = 0;
  int shared_bytes = 0;
  WIDELANE_RETURN_IF_FAILED(cudaGetDevice(&device));
  WIDELANE_RETURN_IF_FAILED(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  WIDELANE_RETURN_IF_FAILED(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  shape = {.outputs = a.outputs,
           .rows = a.rows,
           .entries = a.entries,
           .weight_bytes = (uint64_t{a.features} + 1) * a.outputs * SizeOf(a.weight_type),
           .weight_type = a.weight_type,
           .split = numeric::MaySplit(a.max_weight),
           .multiprocessors = static_cast<uint32_t>(multiprocessors),
           .shared_bytes = static_cast<size_t>(shared_bytes)};
  return cudaSuccess;
}

// How results come from sums.
struct Ways {
  bool fused = false;           // the wide kernel picks the best outputs
  bool normalised = false;      // scores need all raw sums of a row
  bool picked = false;          // best outputs do
  bool raw_in_scratch = false;  // all raw sums are kept there for that
  bool wide = false;

  // `may_keep_raw`: raw sums are made by this call; `may_fuse`: by the kernels that sum.
  Ways(const ScoreArguments& a, bool may_keep_raw, bool may_fuse) : wide(a.outputs > kMaxNarrowOutputs) {
    const bool pointwise = numeric::IsPointwise(a.link);
    fused = a.best > 0 && may_fuse && pointwise && wide;
    picked = a.best > 0 && !fused;
    normalised = a.scores != nullptr && !pointwise;
    raw_in_scratch = may_keep_raw && (picked || normalised) && a.raw == nullptr;
  }
};

// One call, in as many steps of rows as the scratch asks for.
class Launcher {
 public:
  Launcher(const ScoreArguments& arguments, const Ways& ways, cudaStream_t stream)
      : all_(arguments), ways_(ways), stream_(stream) {}

  // Calls `step` with one ScoreCall after the other.
  template <typename Step>
  cudaError_t ForEachStep(const Step& step) {
    WIDELANE_RETURN_IF_FAILED(Plan());
    for (uint32_t first = 0; first < all_.rows; first += scratch_.rows) {
      WIDELANE_RETURN_IF_FAILED(step(CallFor(first, std::min(scratch_.rows, all_.rows - first))));
    }
    return cudaSuccess;
  }

  // Sums of all rows, and what comes of them at once.
  cudaError_t Sum(const ScoreCall& call) const {
    const bool has_long_rows = call.input.cut.pieces > 0;
    if (has_long_rows) {
      WIDELANE_RETURN_IF_FAILED(LaunchZeroLongRows(call, stream_));
      WIDELANE_RETURN_IF_FAILED(ways_.wide ? LaunchWidePieces(call, stream_) : LaunchNarrowPieces(call, stream_));
    }
    WIDELANE_RETURN_IF_FAILED(SumRows(call));
    if (has_long_rows && call.partial == nullptr) WIDELANE_RETURN_IF_FAILED(FinishLongRows(call));
    return has_candidates_ ? LaunchPickCandidates(call, stream_) : cudaSuccess;
  }

  // What needs all raw sums of a row.
  cudaError_t FinishRaw(const ScoreCall& call, const double* raw) const {
    if (ways_.picked) return LaunchPick(call, raw, stream_);
    if (!ways_.normalised) return cudaSuccess;
    return LaunchNormalise(call, raw, all_.scores + ResultsBefore(call, all_.outputs), stream_);
  }

  static size_t ResultsBefore(const ScoreCall& call, uint32_t of_row) { return size_t{call.input.first_row} * of_row; }

 private:
  cudaError_t Plan() {
    WIDELANE_RETURN_IF_FAILED(ShapeOf(all_, shape_));
    const uint32_t tiles = PlanSums(shape_).tiles;
    const bool long_sums = all_.cut.pieces > 0 && all_.partial == nullptr;
    has_candidates_ = ways_.fused && tiles > 1;
    scratch_ = PlanScratch({.outputs = all_.outputs,
                            .rows = all_.rows,
                            .bytes = all_.scratch_bytes,
                            .sums = ways_.raw_in_scratch || long_sums,
                            .candidates = has_candidates_ ? size_t{tiles} * all_.best : 0});
    return scratch_.rows == 0 ? cudaErrorInvalidValue : cudaSuccess;
  }

  SumPlan PlanFor(uint32_t rows) const {
    SumShape shape = shape_;
    shape.rows = rows;
    shape.entries = static_cast<uint32_t>(uint64_t{shape_.entries} * rows / shape_.rows);
    return PlanSums(shape);
  }

  ScoreCall CallFor(uint32_t first, uint32_t rows) const {
    ScoreCall call;
    call.input = all_;
    call.input.first_row += first;
    call.input.rows = rows;
    call.plan = PlanFor(rows);
    call.row_limit = RowLimit(all_.outputs);
    call.partial = Advance(all_.partial, ResultsBefore(call, all_.outputs));
    // Else every part of a sum would have the context once.
    if (call.partial != nullptr) call.input.context_sums = nullptr;
    call.raw = Advance(all_.raw, ResultsBefore(call, all_.outputs));
    call.scores = ways_.normalised ? nullptr : Advance(all_.scores, ResultsBefore(call, all_.outputs));
    call.best = all_.best;
    call.best_outputs = Advance(all_.best_outputs, ResultsBefore(call, all_.best));
    call.best_scores = Advance(all_.best_scores, ResultsBefore(call, all_.best));
    // Long rows' sums lie where their raw sums will, if these are kept.
    auto* scratch = static_cast<std::byte*>(all_.scratch);
    call.long_sums = call.partial != nullptr ? call.partial : reinterpret_cast<int64_t*>(scratch);
    if (ways_.raw_in_scratch) call.raw = reinterpret_cast<double*>(scratch);
    if (has_candidates_) call.candidates = reinterpret_cast<Candidate*>(scratch + scratch_.candidates_offset);
    return call;
  }

  cudaError_t SumRows(const ScoreCall& call) const {
    ScoreCall sum = call;
    if (!ways_.fused) sum.best = 0;
    if (ways_.wide) return LaunchWide(sum, stream_);
    return call.plan.kind == SumKind::kNarrow ? LaunchNarrow(sum, stream_) : LaunchOneOutput(sum, stream_);
  }

  cudaError_t FinishLongRows(const ScoreCall& call) const {
    if (!ways_.fused) return LaunchFinishLongRows(call, stream_);
    ScoreCall kept = call;
    kept.raw = reinterpret_cast<double*>(call.long_sums);
    WIDELANE_RETURN_IF_FAILED(LaunchFinishLongRows(kept, stream_));
    return LaunchPickLongRows(kept, kept.raw, stream_);
  }

  const ScoreArguments& all_;
  const Ways ways_;
  const cudaStream_t stream_;
  SumShape shape_;
  ScratchPlan scratch_;
  bool has_candidates_ = false;
};

}  // namespace

cudaError_t LaunchScore(const ScoreArguments& arguments, cudaStream_t stream) {
  Launcher launcher(arguments, Ways(arguments, true, true), stream);
  return launcher.ForEachStep([&](const ScoreCall& call) {
    WIDELANE_RETURN_IF_FAILED(launcher.Sum(call));
    return launcher.FinishRaw(call, call.raw);
  });
}

cudaError_t LaunchFinishPartial(const ScoreArguments& arguments, const int64_t* const* partials, uint32_t count,
                                cudaStream_t stream) {
  if (count == 0 || count > kMaxPartials) return cudaErrorInvalidValue;
  ScoreArguments rest = arguments;
  rest.cut = {};
  rest.partial = nullptr;
  Launcher launcher(rest, Ways(rest, true, false), stream);
  return launcher.ForEachStep([&](const ScoreCall& call) {
    Partials of_step = {{}, count};
    for (uint32_t p = 0; p < count; ++p) {
      of_step.sums[p] = partials[p] + Launcher::ResultsBefore(call, rest.outputs);
    }
    WIDELANE_RETURN_IF_FAILED(LaunchAddPartials(call, of_step, stream));
    return launcher.FinishRaw(call, call.raw);
  });
}

cudaError_t LaunchFinishRaw(const ScoreArguments& arguments, const double* raw, cudaStream_t stream) {
  ScoreArguments rest = arguments;
  rest.cut = {};
  Launcher launcher(rest, Ways(rest, false, false), stream);
  return launcher.ForEachStep([&](const ScoreCall& call) {
    const double* of_step = raw + Launcher::ResultsBefore(call, rest.outputs);
    if (call.scores != nullptr || call.raw != nullptr) {
      WIDELANE_RETURN_IF_FAILED(LaunchPointwise(call, of_step, stream));
    }
    return launcher.FinishRaw(call, of_step);
  });
}

cudaError_t PrepareKernels() {
  for (cudaError_t (*prepare)() : {PrepareOneOutput, PrepareNarrow, PrepareWide, PrepareFinish, PreparePick}) {
    WIDELANE_RETURN_IF_FAILED(prepare());
  }
  return cudaSuccess;
}

}  // namespace widelane::cuda
