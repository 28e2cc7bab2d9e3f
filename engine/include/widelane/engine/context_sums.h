// The sums of the contexts of one request: computed once, on the CPU, and then part of every batch that has rows of the
// request. A context is summed on the grid of the row it belongs to, since that is what the row with all its features
// written out would be summed on (README.md); rows of one context with different grids make several lines of it.

#ifndef WIDELANE_ENGINE_CONTEXT_SUMS_H_
#define WIDELANE_ENGINE_CONTEXT_SUMS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "widelane/engine/csr.h"
#include "widelane/engine/model.h"
#include "widelane/engine/route.h"

namespace widelane {

// Kept between requests for its memory. One thread at a time; reading by several once Compute is done.
class ContextSums {
 public:
  // Lines of [outputs] numbers a batch may hold at most.
  static constexpr uint32_t kMaxLines = uint32_t{1} << 16;
  // Terms that are added up for one request at most: entries of each context times its lines times the outputs. Some
  // 10 ms of one thread.
  static constexpr uint64_t kMostTerms = uint64_t{1} << 24;

  // `rows` and `contexts` have passed CheckShape and CheckContexts, and stay where they are as long as the sums are
  // used; `values` is the kind of the batches, no narrower than the values of both. `most_sums`: lines times outputs
  // that a batch can hold.
  // Errors: INVALID_ARGUMENT naming contexts.indices[..], contexts.values[..] or contexts.features, or what PackRows
  // would refuse where a value of the rows is not finite;
  // RESOURCE_EXHAUSTED when contexts or lines are too many for a batch, or the terms more than kMostTerms.
  absl::Status Compute(const Model& model, const CsrView& rows, const RowContexts& contexts, Values values,
                       uint64_t most_sums);

  uint32_t lines() const { return lines_; }
  // [lines][outputs]
  std::span<const int64_t> sums() const { return sums_; }
  // The context of each row; absent: 0 is that of all.
  const std::optional<TypedArray>& of() const { return of_; }
  // For PackRows: the line of a row of context `context` whose own largest |value| is `row_max` (ignored for values of
  // 1), and the largest |value| of both.
  struct Line {
    uint32_t line;
    float max;
  };
  Line LineOf(uint64_t context, float row_max) const;
  // Entries of unknown features in the contexts, each counted once.
  uint64_t ignored() const { return ignored_; }
  // Memory it holds.
  uint64_t bytes() const { return contexts_.capacity() * sizeof(Context) + sums_.capacity() * sizeof(int64_t); }
  // Gives back memory of more than a few lines.
  void Reset();

 private:
  // Grids are numbered by their exponents: 0 where all products are zero, then upwards from that of the least float.
  static constexpr uint32_t kGrids = 320;
  using GridSet = std::array<uint64_t, kGrids / 64>;
  struct Context {
    float max = 0;  // of |value|
    uint32_t first_line = 0;
    GridSet grids{};  // those of its rows: a line each, in order
  };

  absl::Status ReadContexts(const Model& model, const CsrView& contexts);
  absl::Status FindGrids(const Model& model, const CsrView& rows);
  absl::Status NumberLines(uint32_t outputs, uint64_t most_sums);
  absl::Status CheckTerms(const CsrView& contexts, uint32_t outputs) const;
  void AddContexts(const Model& model, const CsrView& contexts);
  uint32_t GridOf(float max) const;
  double InverseStepOf(uint32_t grid) const;

  bool ones_ = true;
  double max_weight_ = 0;
  int64_t least_exponent_ = 0;  // of steps, as doubles keep it
  std::optional<TypedArray> of_;
  std::vector<Context> contexts_;
  uint32_t lines_ = 0;
  uint64_t ignored_ = 0;
  std::vector<int64_t> sums_;
};

}  // namespace widelane

#endif  // WIDELANE_ENGINE_CONTEXT_SUMS_H_
