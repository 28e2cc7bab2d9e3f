#include "widelane/engine/slab.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
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
  Layout layout;
  const size_t row_begin = layout.Add((size_t{options.rows} + 1) * sizeof(uint32_t));
  const size_t row_max = layout.Add(size_t{options.rows} * sizeof(float));
  const size_t indices = layout.Add(size_t{options.entries} * sizeof(uint32_t));
  const size_t values = layout.Add(size_t{options.entries} * sizeof(float));
  const size_t scores = layout.Add(size_t{options.results} * sizeof(float));
  const size_t raw = layout.Add(size_t{options.results} * sizeof(double));

  auto slab = std::unique_ptr<Slab>(new Slab(options, memory));
  slab->block_ = memory.Allocate(layout.size());
  if (slab->block_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for a slab of ", layout.size(), " bytes"));
  }
  slab->block_bytes_ = layout.size();
  slab->row_begin_ = reinterpret_cast<uint32_t*>(slab->block_ + row_begin);
  slab->row_max_ = reinterpret_cast<float*>(slab->block_ + row_max);
  slab->indices_ = slab->block_ + indices;
  slab->values_ = reinterpret_cast<float*>(slab->block_ + values);
  slab->scores_ = reinterpret_cast<float*>(slab->block_ + scores);
  slab->raw_ = reinterpret_cast<double*>(slab->block_ + raw);
  return slab;
}

Slab::~Slab() {
  if (block_ != nullptr) memory_.Free(block_, block_bytes_);
}

void Slab::Open(std::shared_ptr<const LoadedModel> model, bool has_values) {
  model_ = std::move(model);
  max_rows_ = std::min(options_.rows, options_.results / model_->model().outputs());
  rows_ = 0;
  entries_ = 0;
  wants_ = 0;
  has_values_ = has_values;
  view_ = {};
  status = absl::OkStatus();
  stages = {};
  device = -1;
}

CsrShape Slab::Room() const { return {max_rows_ - rows_, options_.entries - entries_}; }

std::optional<Segment> Slab::Claim(uint64_t rows, uint64_t entries, uint8_t wants) {
  if (rows > max_rows_ - rows_ || entries > options_.entries - entries_) return std::nullopt;
  const Segment segment{rows_, static_cast<uint32_t>(rows), entries_, static_cast<uint32_t>(entries)};
  rows_ += segment.rows;
  entries_ += segment.entries;
  wants_ |= wants;
  return segment;
}

void Slab::Void(const Segment& segment) {
  // Entries of the zero feature, shared out evenly: one row with all of them would take long to score.
  for (uint32_t r = 0; r < segment.rows; ++r) {
    row_begin_[segment.first_row + r] =
        segment.first_entry + static_cast<uint32_t>(uint64_t{segment.entries} * r / segment.rows);
  }
  if (model_->model().narrow_indices()) {
    std::fill_n(reinterpret_cast<uint16_t*>(indices_) + segment.first_entry, segment.entries,
                static_cast<uint16_t>(model_->model().zero_feature()));
  } else {
    std::fill_n(reinterpret_cast<uint32_t*>(indices_) + segment.first_entry, segment.entries,
                model_->model().zero_feature());
  }
  if (has_values_) {
    std::fill_n(values_ + segment.first_entry, segment.entries, 0.0F);
    std::fill_n(row_max_ + segment.first_row, segment.rows, 0.0F);
  }
}

void Slab::Seal() {
  row_begin_[rows_] = entries_;
  view_.rows = rows_;
  view_.entries = entries_;
  view_.row_begin = row_begin_;
  if (model_->model().narrow_indices()) {
    view_.indices16 = reinterpret_cast<const uint16_t*>(indices_);
  } else {
    view_.indices32 = reinterpret_cast<const uint32_t*>(indices_);
  }
  view_.values = has_values_ ? values_ : nullptr;
  view_.row_max = has_values_ ? row_max_ : nullptr;
  view_.scores = (wants_ & kWantScores) != 0 ? scores_ : nullptr;
  view_.raw = (wants_ & kWantRaw) != 0 ? raw_ : nullptr;
}

const float* Slab::scores(uint32_t row) const {
  return view_.scores == nullptr ? nullptr : view_.scores + size_t{row} * model_->model().outputs();
}

const double* Slab::raw(uint32_t row) const {
  return view_.raw == nullptr ? nullptr : view_.raw + size_t{row} * model_->model().outputs();
}

PackTarget::PackTarget(Slab& slab, const Segment& segment)
    : row_begin(slab.row_begin_ + segment.first_row),
      row_max(slab.has_values_ ? slab.row_max_ + segment.first_row : nullptr),
      values(slab.has_values_ ? slab.values_ + segment.first_entry : nullptr),
      model(slab.model_->model()) {
  if (model.narrow_indices()) {
    indices16 = reinterpret_cast<uint16_t*>(slab.indices_) + segment.first_entry;
  } else {
    indices32 = reinterpret_cast<uint32_t*>(slab.indices_) + segment.first_entry;
  }
}

}  // namespace widelane
