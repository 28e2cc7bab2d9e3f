// Arrays as networks deliver them: their bytes in many small buffers, each of exactly its size, so that the address
// sanitizer sees who reads past an end.

#ifndef WIDELANE_TESTS_ENGINE_IN_PIECES_H_
#define WIDELANE_TESTS_ENGINE_IN_PIECES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "widelane/engine/csr.h"

namespace widelane::test {

class InPieces {
 public:
  // `next_size()` is asked for the bytes of each piece, at least 1.
  template <typename NextSize>
  TypedArray Cut(const TypedArray& array, NextSize next_size) {
    const uint64_t bytes = array.count * ElementSize(array.type);
    TypedArray cut{array.type, nullptr, array.count};
    std::vector<ArrayPiece>& pieces = pieces_.emplace_back();
    for (uint64_t begin = 0; begin < bytes;) {
      const uint64_t end = begin + std::min<uint64_t>(bytes - begin, std::max<uint64_t>(1, next_size()));
      buffers_.emplace_back(array.data + begin, array.data + end);
      pieces.push_back({buffers_.back().data(), begin});
      begin = end;
    }
    cut.pieces = pieces;
    return cut;
  }

  template <typename NextSize>
  std::optional<TypedArray> Cut(const std::optional<TypedArray>& array, NextSize next_size) {
    if (!array.has_value()) return std::nullopt;
    return Cut(*array, next_size);
  }

  template <typename NextSize>
  CsrView Cut(const CsrView& csr, NextSize next_size) {
    CsrView cut = csr;
    cut.indptr = Cut(csr.indptr, next_size);
    cut.row_lengths = Cut(csr.row_lengths, next_size);
    cut.indices = Cut(csr.indices, next_size);
    cut.values = Cut(csr.values, next_size);
    return cut;
  }

 private:
  std::deque<std::vector<std::byte>> buffers_;
  std::deque<std::vector<ArrayPiece>> pieces_;
};

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_ENGINE_IN_PIECES_H_
