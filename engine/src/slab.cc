#include "widelane/engine/slab.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "backend.h"
#include "pack_target.h"
#include "widelane/engine/engine.h"

namespace widelane {

namespace {

// Lays arrays one behind the other, each on a cache line of its own.
class Layout {
 public:
  size_t Add(size_t bytes) {
    const size_t offset = size_;
    size_ = (size_ + bytes + 63) / 64 * 64;
    return offset;
  }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Slab>> Slab::Create(const SlabOptions& options, HostMemory& memory) {
  const size_t rows = options.rows;
  const size_t entries = options.entries;
  Layout layout;
  const size_t row_begin = layout.Add((rows + 1) * sizeof(uint32_t));
  const size_t group_begin = layout.Add((rows / kGroupRows + 1) * sizeof(uint32_t));
  const size_t lengths8 = layout.Add(rows * sizeof(uint8_t));
  const size_t lengths16 = layout.Add(rows * sizeof(uint16_t));
  const size_t row_max = layout.Add(rows * sizeof(float));
  const size_t context_sums = layout.Add(size_t{options.context_sums} * sizeof(int64_t));
  const size_t context_line = layout.Add(rows * sizeof(uint16_t));
  const size_t indices = layout.Add(entries * sizeof(uint32_t));
  const size_t values = layout.Add(entries * sizeof(float));
  const size_t raw = layout.Add(size_t{options.results} * sizeof(double));
  const size_t scores = layout.Add(size_t{options.results} * sizeof(float));

  auto slab = std::unique_ptr<Slab>(new Slab(options, memory));
  slab->block_ = memory.Allocate(layout.size());
  if (slab->block_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for a slab of ", layout.size(), " bytes"));
  }
  slab->block_bytes_ = layout.size();
  slab->row_begin_ = reinterpret_cast<uint32_t*>(slab->block_ + row_begin);
  slab->group_begin_ = reinterpret_cast<uint32_t*>(slab->block_ + group_begin);
  slab->lengths8_ = reinterpret_cast<uint8_t*>(slab->block_ + lengths8);
  slab->lengths16_ = reinterpret_cast<uint16_t*>(slab->block_ + lengths16);
  slab->row_max_ = reinterpret_cast<float*>(slab->block_ + row_max);
  slab->context_sums_ = reinterpret_cast<int64_t*>(slab->block_ + context_sums);
  slab->context_line_ = reinterpret_cast<uint16_t*>(slab->block_ + context_line);
  slab->indices_ = slab->block_ + indices;
  slab->values_ = slab->block_ + values;
  slab->raw_ = reinterpret_cast<double*>(slab->block_ + raw);
  slab->scores_ = reinterpret_cast<float*>(slab->block_ + scores);
  return slab;
}

Slab::Slab(const SlabOptions& options, HostMemory& memory) : options_(options), memory_(memory) {}

Slab::~Slab() {
  if (block_ != nullptr) memory_.Free(block_, block_bytes_);
}

void Slab::Open(std::shared_ptr<const LoadedModel> model, const BatchKind& kind) {
  model_ = std::move(model);
  kind_ = kind;
  max_rows_ = std::min(options_.rows, options_.results / (kind.best > 0 ? kind.best : model_->model().outputs()));
  rows_ = 0;
  entries_ = 0;
  max_lines_ = std::min(ContextSums::kMaxLines, options_.context_sums / model_->model().outputs());
  lines_ = 0;
  wants_ = 0;
  longest_row_.store(0, std::memory_order_relaxed);
  view_ = {};
  status = absl::OkStatus();
  stages = {};
  begun = {};
  ended = {};
  observer = nullptr;
  device = -1;
  route = Route::kAuto;
}

CsrShape Slab::Room() const { return {max_rows_ - rows_, options_.entries - entries_}; }

uint32_t Slab::RoomForLines() const { return max_lines_ - lines_; }

std::optional<Segment> Slab::Claim(uint64_t rows, uint64_t entries, uint8_t wants, uint32_t lines) {
  if (rows > max_rows_ - rows_ || entries > options_.entries - entries_ || lines > RoomForLines()) return std::nullopt;
  const Segment segment{rows_, static_cast<uint32_t>(rows), entries_, static_cast<uint32_t>(entries), lines_, lines};
  rows_ += segment.rows;
  entries_ += segment.entries;
  lines_ += lines;
  wants_ |= wants;
  return segment;
}

void Slab::Void(const Segment& segment) {
  PackTarget target(*this, segment);
  // Entries of the zero feature, shared out evenly: one row with all of them would take long to score.
  const auto begin = [&segment](uint32_t r) {
    return static_cast<uint32_t>(uint64_t{segment.entries} * r / segment.rows);
  };
  for (uint32_t r = 0; r < segment.rows; ++r) target.WriteRow(r, begin(r), begin(r + 1) - begin(r));
  target.FinishRows();
  const uint32_t zero_feature = target.model.zero_feature();
  if (target.indices16 != nullptr) {
    std::fill_n(target.indices16, segment.entries, static_cast<uint16_t>(zero_feature));
  } else {
    std::fill_n(target.indices32, segment.entries, zero_feature);
  }
  if (target.values16 != nullptr) std::fill_n(target.values16, segment.entries, uint16_t{0});
  if (target.values32 != nullptr) std::fill_n(target.values32, segment.entries, 0.0F);
  if (target.row_max != nullptr) std::fill_n(target.row_max, segment.rows, 0.0F);
  if (target.context_line == nullptr) return;
  std::fill_n(target.context_sums, size_t{segment.lines} * target.model.outputs(), int64_t{0});
  std::fill_n(target.context_line, segment.rows, static_cast<uint16_t>(segment.first_line));
}

void Slab::Seal() {
  row_begin_[rows_] = entries_;
  view_ = {};
  view_.rows = rows_;
  view_.entries = entries_;
  view_.longest_row = longest_row_.load(std::memory_order_relaxed);
  view_.row_begin = row_begin_;
  view_.group_begin = group_begin_;
  if (view_.longest_row <= UINT8_MAX) {
    view_.lengths8 = lengths8_;
  } else if (view_.longest_row <= UINT16_MAX) {
    view_.lengths16 = lengths16_;
  }
  if (model_->model().narrow_indices()) {
    view_.indices16 = reinterpret_cast<const uint16_t*>(indices_);
  } else {
    view_.indices32 = reinterpret_cast<const uint32_t*>(indices_);
  }
  if (kind_.values == Values::kFloat16) view_.values16 = reinterpret_cast<const uint16_t*>(values_);
  if (kind_.values == Values::kFloat32) view_.values32 = reinterpret_cast<const float*>(values_);
  if (kind_.values != Values::kOnes) view_.row_max = row_max_;
  if (kind_.contexts) {
    view_.context_lines = lines_;
    view_.context_sums = context_sums_;
    view_.context_line = context_line_;
  }
  if (kind_.best > 0) {
    view_.best = kind_.best;
    view_.best_outputs = reinterpret_cast<uint32_t*>(raw_);  // there are no raw sums
    view_.best_scores = scores_;
    return;
  }
  view_.scores = (wants_ & kWantScores) != 0 ? scores_ : nullptr;
  view_.raw = (wants_ & kWantRaw) != 0 ? raw_ : nullptr;
}

const float* Slab::scores(uint32_t row) const {
  return view_.scores == nullptr ? nullptr : view_.scores + size_t{row} * model_->model().outputs();
}

const double* Slab::raw(uint32_t row) const {
  return view_.raw == nullptr ? nullptr : view_.raw + size_t{row} * model_->model().outputs();
}

const uint32_t* Slab::best_outputs(uint32_t row) const {
  return view_.best_outputs == nullptr ? nullptr : view_.best_outputs + size_t{row} * view_.best;
}

const float* Slab::best_scores(uint32_t row) const {
  return view_.best_scores == nullptr ? nullptr : view_.best_scores + size_t{row} * view_.best;
}

void Slab::SpoilResults() {
  const size_t per_row = view_.best > 0 ? view_.best : model_->model().outputs();
  std::memset(raw_, 0xFF, rows_ * per_row * sizeof(double));
  std::memset(scores_, 0xFF, rows_ * per_row * sizeof(float));
}

PackTarget::PackTarget(Slab& slab, const Segment& of)
    : segment(of),
      model(slab.model_->model()),
      row_begin_(slab.row_begin_),
      group_begin_(slab.group_begin_),
      lengths8_(slab.lengths8_),
      lengths16_(slab.lengths16_),
      slab_longest_(slab.longest_row_) {
  if (model.narrow_indices()) {
    indices16 = reinterpret_cast<uint16_t*>(slab.indices_) + segment.first_entry;
  } else {
    indices32 = reinterpret_cast<uint32_t*>(slab.indices_) + segment.first_entry;
  }
  if (slab.kind_.contexts) {
    context_sums = slab.context_sums_ + size_t{segment.first_line} * model.outputs();
    context_line = slab.context_line_ + segment.first_row;
  }
  if (slab.kind_.values == Values::kOnes) return;
  row_max = slab.row_max_ + segment.first_row;
  if (slab.kind_.values == Values::kFloat16) {
    values16 = reinterpret_cast<uint16_t*>(slab.values_) + segment.first_entry;
  } else {
    values32 = reinterpret_cast<float*>(slab.values_) + segment.first_entry;
  }
}

void PackTarget::FinishRows() {
  uint32_t longest = slab_longest_.load(std::memory_order_relaxed);
  while (longest < longest_ && !slab_longest_.compare_exchange_weak(longest, longest_, std::memory_order_relaxed)) {
  }
}

}  // namespace widelane
