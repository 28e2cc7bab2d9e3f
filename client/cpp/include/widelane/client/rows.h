// Rows to be scored: arrays the caller has already (RowsView), or rows put together one by one (Rows).

#ifndef WIDELANE_CLIENT_ROWS_H_
#define WIDELANE_CLIENT_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <variant>
#include <vector>

namespace widelane::client {

// CSR arrays as scipy names them, looked at and never owned: row r holds entries indptr[r] to indptr[r + 1].
struct RowsView {
  // Rows + 1 offsets: the first 0, never falling, the last the number of indices. Empty: no rows.
  std::variant<std::span<const int64_t>, std::span<const int32_t>, std::span<const uint32_t>> indptr;
  // Feature of each entry, counted from 0, in any order; a feature that comes twice counts twice.
  std::variant<std::span<const int64_t>, std::span<const int32_t>, std::span<const uint32_t>, std::span<const uint16_t>>
      indices;
  // Value of each entry, or none: all are 1. Doubles are rounded to float32.
  std::variant<std::monostate, std::span<const float>, std::span<const double>> values;
  // If not 0, the number of features the caller believes the model has; the server refuses another.
  uint64_t features = 0;
};

// Owns its rows. Not thread safe.
class Rows {
 public:
  // A row whose values are all 1.
  void Add(std::span<const int64_t> indices);
  void Add(std::initializer_list<int64_t> indices) { Add(std::span(indices.begin(), indices.size())); }
  // One value for each index, else the row is not added and the result is false.
  [[nodiscard]] bool Add(std::span<const int64_t> indices, std::span<const float> values);
  bool Add(std::initializer_list<int64_t> indices, std::initializer_list<float> values) {
    return Add(std::span(indices.begin(), indices.size()), std::span(values.begin(), values.size()));
  }

  // The same in pieces: entries go to the row that EndRow finishes.
  void AddEntry(int64_t index, float value) {
    indices_.push_back(index);
    values_.push_back(value);
  }
  void EndRow() { indptr_.push_back(static_cast<int64_t>(indices_.size())); }
  // Forgets entries that no EndRow has followed.
  void DropUnfinishedRow();

  size_t rows() const { return indptr_.size() - 1; }
  size_t entries() const { return indices_.size(); }
  // Keeps the memory.
  void Clear();

  // Valid until the rows change.
  RowsView view() const& { return {std::span(indptr_), std::span(indices_), std::span(values_), 0}; }
  RowsView view() && = delete;
  operator RowsView() const& { return view(); }  // NOLINT(google-explicit-constructor): a request takes either
  operator RowsView() && = delete;

 private:
  std::vector<int64_t> indptr_{0};
  std::vector<int64_t> indices_;
  std::vector<float> values_;
};

}  // namespace widelane::client

#endif  // WIDELANE_CLIENT_ROWS_H_
