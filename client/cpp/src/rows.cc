#include "widelane/client/rows.h"

namespace widelane::client {

void Rows::Add(std::span<const int64_t> indices) {
  indices_.insert(indices_.end(), indices.begin(), indices.end());
  values_.resize(indices_.size(), 1.0F);
  EndRow();
}

bool Rows::Add(std::span<const int64_t> indices, std::span<const float> values) {
  if (indices.size() != values.size()) return false;
  indices_.insert(indices_.end(), indices.begin(), indices.end());
  values_.insert(values_.end(), values.begin(), values.end());
  EndRow();
  return true;
}

void Rows::DropUnfinishedRow() {
  indices_.resize(static_cast<size_t>(indptr_.back()));
  values_.resize(indices_.size());
}

void Rows::Clear() {
  indptr_.resize(1);
  indices_.clear();
  values_.clear();
}

}  // namespace widelane::client
