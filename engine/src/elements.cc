#include "elements.h"

#include <algorithm>

namespace widelane {

namespace {

using PieceIterator = std::span<const ArrayPiece>::iterator;

// The last piece that begins at `byte` or before it.
PieceIterator PieceOf(const TypedArray& array, uint64_t byte) {
  return std::upper_bound(array.pieces.begin(), array.pieces.end(), byte,
                          [](uint64_t at, const ArrayPiece& piece) { return at < piece.begin; }) -
         1;
}

uint64_t EndOf(const TypedArray& array, PieceIterator piece) {
  return piece + 1 == array.pieces.end() ? array.count * ElementSize(array.type) : (piece + 1)->begin;
}

}  // namespace

ElementRun RunInPieces(const TypedArray& array, uint64_t i) {
  const uint64_t size = ElementSize(array.type);
  if (i >= array.count) return {};
  const PieceIterator piece = PieceOf(array, i * size);
  const uint64_t first = (piece->begin + size - 1) / size;
  const uint64_t end = EndOf(array, piece) / size;
  if (first > i || i >= end) return {};
  return {piece->data + (first * size - piece->begin), first, end - first};
}

void GatherElement(const TypedArray& array, uint64_t i, std::byte* room) {
  const uint64_t size = ElementSize(array.type);
  uint64_t at = i * size;
  const uint64_t end = at + size;
  for (PieceIterator piece = PieceOf(array, at); at < end; ++piece) {
    const uint64_t n = std::min(end, EndOf(array, piece)) - at;
    room = std::copy_n(piece->data + (at - piece->begin), n, room);
    at += n;
  }
}

uint64_t IntegerInPieces(const TypedArray& array, uint64_t i) {
  std::byte room[8];
  GatherElement(array, i, room);
  return IntegerAt(array.type, room, 0);
}

}  // namespace widelane
