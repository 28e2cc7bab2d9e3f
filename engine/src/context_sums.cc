#include "widelane/engine/context_sums.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "copy_elements.h"
#include "elements.h"
#include "numeric.h"
#include "pack_errors.h"

namespace widelane {

namespace {

constexpr int kMantissaBits = 52;
constexpr int64_t kExponentOfOne = 1023;

int64_t ExponentOf(double positive) { return numeric::BitsOf(positive) >> kMantissaBits; }

// Some entries as PackRows would pack them: those of unknown features are of the zero feature, with the value 0.
class Entries {
 public:
  static constexpr uint64_t kMost = 1024;

  // Entries [begin, begin + count), at most kMost.
  void Load(const CsrView& csr, const Model& model, uint64_t begin, uint64_t count) {
    unknown_ = CopyIndices(csr.indices, begin, count, model.features(), indices_);
    LoadValues(csr, begin, count);
    if (unknown_ == 0) return;
    for (uint64_t i = 0; i < count; ++i) values_[i] = indices_[i] == model.zero_feature() ? 0 : values_[i];
  }
  // The same where no feature is unknown, without the features.
  void LoadValues(const CsrView& csr, uint64_t begin, uint64_t count) {
    finite_ = true;
    if (csr.values.has_value()) {
      finite_ = CopyValues(*csr.values, begin, count, values_);
    } else {
      std::fill_n(values_, count, 1.0F);
    }
  }

  uint64_t unknown() const { return unknown_; }
  bool finite() const { return finite_; }
  const uint32_t* indices() const { return indices_; }
  const float* values() const { return values_; }

 private:
  uint64_t unknown_ = 0;
  bool finite_ = true;
  uint32_t indices_[kMost];
  float values_[kMost] = {};  // those after one that is not finite stay as they were
};

struct FromFloat32 {
  using Stored = float;
  static double Convert(float weight) { return weight; }
};
struct FromHalf {
  using Stored = uint16_t;
  static double Convert(uint16_t weight) { return numeric::FromFloat16(weight); }
};
struct FromBrain {
  using Stored = uint16_t;
  static double Convert(uint16_t weight) { return numeric::FromBfloat16(weight); }
};
struct FromInt8 {
  using Stored = int8_t;
  static double Convert(int8_t weight) { return weight; }
};

// Adds the terms of `count` entries to sums[outputs].
template <typename Weight>
void AddTerms(const Model& model, const Entries& entries, uint64_t count, double inverse_step, int64_t* sums) {
  const auto* const weights = reinterpret_cast<const typename Weight::Stored*>(model.weights());
  const uint64_t outputs = model.outputs();
  for (uint64_t i = 0; i < count; ++i) {
    const typename Weight::Stored* const of_feature = weights + entries.indices()[i] * outputs;
    const double scaled = entries.values()[i] * inverse_step;
    for (uint64_t k = 0; k < outputs; ++k) sums[k] += numeric::Term(Weight::Convert(of_feature[k]), scaled);
  }
}

void AddTerms(const Model& model, const Entries& entries, uint64_t count, double inverse_step, int64_t* sums) {
  switch (model.weight_type()) {
    case WeightType::kFloat32:
      return AddTerms<FromFloat32>(model, entries, count, inverse_step, sums);
    case WeightType::kFloat16:
      return AddTerms<FromHalf>(model, entries, count, inverse_step, sums);
    case WeightType::kBfloat16:
      return AddTerms<FromBrain>(model, entries, count, inverse_step, sums);
    case WeightType::kInt8:
      return AddTerms<FromInt8>(model, entries, count, inverse_step, sums);
  }
}

// Calls body(begin, count) for the current row's entries, at most Entries::kMost at once.
template <typename Body>
void InBlocks(const RowCursor& row, const Body& body) {
  const uint64_t end = row.begin() + row.length();
  for (uint64_t begin = row.begin(); begin < end; begin += Entries::kMost) {
    body(begin, std::min(end - begin, Entries::kMost));
  }
}

}  // namespace

absl::Status ContextSums::Compute(const Model& model, const CsrView& rows, const RowContexts& contexts, Values values,
                                  uint64_t most_sums) {
  ones_ = values == Values::kOnes;
  max_weight_ = model.max_weight();
  least_exponent_ = ExponentOf(numeric::GridFor(max_weight_, std::numeric_limits<float>::denorm_min()).step);
  of_ = contexts.of;
  ignored_ = 0;
  lines_ = 0;
  if (absl::Status status = CheckFeatures(contexts.features, model, RowsOf::kContexts); !status.ok()) return status;
  // Before there is memory for them. Each that has rows needs a line.
  if (const uint64_t count = RowCount(contexts.features); count > kMaxLines) {
    return absl::ResourceExhaustedError(absl::StrCat("contexts: ", count, " contexts, a batch holds ", kMaxLines));
  }
  contexts_.assign(RowCount(contexts.features), {});
  if (absl::Status status = ReadContexts(model, contexts.features); !status.ok()) return status;
  if (absl::Status status = FindGrids(model, rows); !status.ok()) return status;
  if (absl::Status status = NumberLines(model.outputs(), most_sums); !status.ok()) return status;
  if (absl::Status status = CheckTerms(contexts.features, model.outputs()); !status.ok()) return status;
  sums_.assign(size_t{lines_} * model.outputs(), 0);
  AddContexts(model, contexts.features);
  return absl::OkStatus();
}

// Checks every entry, and notes the largest value of each context.
absl::Status ContextSums::ReadContexts(const Model& model, const CsrView& contexts) {
  RowCursor cursor(contexts);
  Entries entries;
  for (Context& context : contexts_) {
    bool finite = true;
    uint64_t unknown = 0;
    InBlocks(cursor, [&](uint64_t begin, uint64_t count) {
      entries.Load(contexts, model, begin, count);
      unknown += entries.unknown();
      finite = finite && entries.finite();
      context.max = std::max(context.max, LargestOf(entries.values(), count));
    });
    if (unknown > 0 || !finite) {
      absl::Status status = FirstRefused(contexts, cursor, 1, model, !ones_, RowsOf::kContexts);
      if (!status.ok()) return status;
    }
    ignored_ += unknown;
    cursor.Next();
  }
  return absl::OkStatus();
}

// Every grid that a row of a context has. A value that is not finite has none, and is refused here.
absl::Status ContextSums::FindGrids(const Model& model, const CsrView& rows) {
  if (ones_) {
    for (Context& context : contexts_) context.grids[0] = 1;
    return absl::OkStatus();
  }
  const bool ignores = model.unknown_features() == UnknownFeatures::kIgnore;
  const uint64_t row_count = RowCount(rows);
  std::optional<IntegerReader> context_of;
  if (of_.has_value()) context_of.emplace(*of_);
  RowLengths lengths((RowCursor(rows)));
  Entries entries;
  uint64_t first = 0;  // of what is loaded
  uint64_t last = 0;
  uint64_t begin = 0;
  for (uint64_t row = 0; row < row_count; ++row) {
    const uint64_t end = begin + lengths.Next();
    float max = 0;
    while (begin < end) {
      if (begin == last) {
        first = begin;
        last = begin + std::min(rows.indices.count - begin, Entries::kMost);
        ignores ? entries.Load(rows, model, first, last - first) : entries.LoadValues(rows, first, last - first);
        if (!entries.finite()) return FirstRefused(rows, RowCursor(rows), row_count, model, true, RowsOf::kRequest);
      }
      const uint64_t count = std::min(end, last) - begin;
      max = std::max(max, LargestOf(entries.values() + (begin - first), count));
      begin += count;
    }
    Context& context = contexts_[context_of.has_value() ? (*context_of)[row] : 0];
    const uint32_t grid = GridOf(std::max(max, context.max));
    context.grids[grid / 64] |= uint64_t{1} << grid % 64;
  }
  return absl::OkStatus();
}

absl::Status ContextSums::NumberLines(uint32_t outputs, uint64_t most_sums) {
  const uint64_t most = std::min<uint64_t>(kMaxLines, most_sums / outputs);
  uint64_t lines = 0;
  for (Context& context : contexts_) {
    context.first_line = static_cast<uint32_t>(lines);
    for (const uint64_t grids : context.grids) lines += static_cast<uint64_t>(std::popcount(grids));
    if (lines > most) {
      return absl::ResourceExhaustedError(
          absl::StrCat("contexts: they need more than ", most,
                       " sums, what a batch of this model holds; each context needs one, or one for each power of two "
                       "that the largest values of its rows lie between"));
    }
  }
  lines_ = static_cast<uint32_t>(lines);
  return absl::OkStatus();
}

// The sums are made on the thread of the caller, who may have others waiting for it.
absl::Status ContextSums::CheckTerms(const CsrView& contexts, uint32_t outputs) const {
  RowLengths lengths((RowCursor(contexts)));
  uint64_t terms = 0;
  for (const Context& context : contexts_) {
    uint64_t lines = 0;
    for (const uint64_t grids : context.grids) lines += static_cast<uint64_t>(std::popcount(grids));
    terms += lengths.Next() * lines * outputs;  // each below 2^24, 2^9 and 2^31; kMostTerms is looked at each time
    if (terms <= kMostTerms) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("contexts: to sum them takes more than ", kMostTerms,
                     " terms (entries of a context x its sums x the model's outputs), the limit; send fewer contexts a "
                     "request, or write their features out in the rows"));
  }
  return absl::OkStatus();
}

void ContextSums::AddContexts(const Model& model, const CsrView& contexts) {
  RowCursor cursor(contexts);
  Entries entries;
  for (const Context& context : contexts_) {
    InBlocks(cursor, [&](uint64_t begin, uint64_t count) {
      entries.Load(contexts, model, begin, count);
      int64_t* sums = sums_.data() + size_t{context.first_line} * model.outputs();
      for (uint32_t grid = 0; grid < kGrids; ++grid) {
        if ((context.grids[grid / 64] >> grid % 64 & 1) == 0) continue;
        AddTerms(model, entries, count, InverseStepOf(grid), sums);
        sums += model.outputs();
      }
    });
    cursor.Next();
  }
}

uint32_t ContextSums::GridOf(float max) const {
  if (ones_ || max_weight_ * static_cast<double>(max) == 0) return 0;
  const int64_t exponent = ExponentOf(numeric::GridFor(max_weight_, max).step);
  return static_cast<uint32_t>(exponent - least_exponent_ + 1);
}

double ContextSums::InverseStepOf(uint32_t grid) const {
  if (ones_) return numeric::GridFor(max_weight_, 1.0F).inverse_step;
  if (grid == 0) return numeric::GridFor(max_weight_, 0.0F).inverse_step;
  return numeric::PowerOfTwo(static_cast<int>(kExponentOfOne - (grid - 1 + least_exponent_)));
}

ContextSums::Line ContextSums::LineOf(uint64_t context, float row_max) const {
  const Context& of = contexts_[context];
  if (ones_) return {of.first_line, 1.0F};
  const float max = std::max(row_max, of.max);
  const uint32_t grid = GridOf(max);
  uint32_t line = of.first_line;
  for (uint32_t word = 0; word < grid / 64; ++word) line += static_cast<uint32_t>(std::popcount(of.grids[word]));
  line += static_cast<uint32_t>(std::popcount(of.grids[grid / 64] & ((uint64_t{1} << grid % 64) - 1)));
  return {line, max};
}

void ContextSums::Reset() {
  constexpr size_t kKeep = 4096;
  if (sums_.capacity() > kKeep) std::vector<int64_t>().swap(sums_);
  if (contexts_.capacity() > kKeep / 8) std::vector<Context>().swap(contexts_);
}

}  // namespace widelane
