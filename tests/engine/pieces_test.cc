// Arrays in pieces against the same arrays in one: the same numbers, the same errors.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backend.h"
#include "copy_elements.h"
#include "cut_csr.h"
#include "elements.h"
#include "harness.h"
#include "in_pieces.h"
#include "plain_memory.h"
#include "widelane/engine/slab.h"

namespace widelane {
namespace {

using test::Between;
using test::InPieces;
using test::Random;

constexpr ElementType kIntegers[] = {ElementType::kU16, ElementType::kU32, ElementType::kI32, ElementType::kI64};
constexpr ElementType kReals[] = {ElementType::kF16, ElementType::kF32, ElementType::kF64};

// The element of `type` nearest to an integer, as bytes.
void Append(std::vector<std::byte>& bytes, ElementType type, int64_t number) {
  const auto add = [&bytes](auto element) {
    const auto* const data = reinterpret_cast<const std::byte*>(&element);
    bytes.insert(bytes.end(), data, data + sizeof(element));
  };
  switch (type) {
    case ElementType::kU16:
      return add(static_cast<uint16_t>(number));
    case ElementType::kU32:
    case ElementType::kI32:
      return add(static_cast<int32_t>(number));
    case ElementType::kI64:
      return add(number);
    case ElementType::kF16:
      return add(HalfBitsOf(static_cast<float>(number)));
    case ElementType::kF32:
      return add(static_cast<float>(number));
    case ElementType::kF64:
      return add(static_cast<double>(number));
  }
}

struct Numbers {
  Numbers(ElementType type, const std::vector<int64_t>& numbers) {
    for (const int64_t number : numbers) Append(bytes, type, number);
    array = {type, bytes.data(), numbers.size()};
  }
  std::vector<std::byte> bytes;
  TypedArray array;
};

// Pieces of one byte, of a few, of one short of some elements, and a few large ones.
std::vector<TypedArray> Cuts(InPieces& pieces, const TypedArray& array, Random& random) {
  std::vector<TypedArray> cuts;
  for (const uint64_t most : {1, 3, 7, 64, 1000}) {
    cuts.push_back(pieces.Cut(array, [&] { return static_cast<uint64_t>(Between(random, 1, most)); }));
  }
  cuts.push_back(pieces.Cut(array, [] { return uint64_t{8}; }));
  return cuts;
}

TEST(Pieces, ReadersGiveTheNumbersOfOnePiece) {
  Random random(1);
  for (const ElementType type : kIntegers) {
    std::vector<int64_t> numbers(200);
    for (int64_t& number : numbers) number = Between(random, -5, 60'000);
    const Numbers one(type, numbers);
    InPieces pieces;
    for (const TypedArray& cut : Cuts(pieces, one.array, random)) {
      IntegerReader reader(cut);
      for (uint64_t i = 0; i < numbers.size(); ++i) {
        ASSERT_EQ(IntegerAt(cut, i), IntegerAt(one.array, i)) << ElementName(type) << " " << i;
        ASSERT_EQ(reader[i], IntegerAt(one.array, i)) << ElementName(type) << " " << i;
        const auto any = static_cast<uint64_t>(Between(random, 0, 199));
        ASSERT_EQ(reader[any], IntegerAt(one.array, any)) << "any order will do";
      }
    }
  }
}

TEST(Pieces, IndicesAndValuesAreCopiedAlike) {
  Random random(2);
  std::vector<int64_t> numbers(300);
  for (int64_t& number : numbers) number = Between(random, 0, 1200);
  for (const ElementType type : kIntegers) {
    const Numbers one(type, numbers);
    InPieces pieces;
    for (const TypedArray& cut : Cuts(pieces, one.array, random)) {
      const auto begin = static_cast<uint64_t>(Between(random, 0, 299));
      const auto count = static_cast<uint64_t>(Between(random, 0, 300 - static_cast<int64_t>(begin)));
      std::vector<uint16_t> expected(count);
      std::vector<uint16_t> got(count);
      EXPECT_EQ(CopyIndices(cut, begin, count, 1000, got.data()),
                CopyIndices(one.array, begin, count, 1000, expected.data()));
      EXPECT_EQ(got, expected) << ElementName(type);
    }
  }
  for (const ElementType type : kReals) {
    const Numbers one(type, numbers);
    InPieces pieces;
    for (const TypedArray& cut : Cuts(pieces, one.array, random)) {
      std::vector<float> expected(300);
      std::vector<float> got(300);
      EXPECT_TRUE(CopyValues(one.array, 0, 300, expected.data()));
      EXPECT_TRUE(CopyValues(cut, 0, 300, got.data()));
      EXPECT_EQ(got, expected) << ElementName(type);
    }
  }
}

TEST(Pieces, NarrowestValuesAreTheSame) {
  Random random(3);
  for (const ElementType type : kReals) {
    for (const int64_t last : {1, 2, 70'001}) {
      if (type == ElementType::kF16 && last > 65'504) continue;
      std::vector<int64_t> numbers(600, 1);
      numbers.back() = last;
      const Numbers one(type, numbers);
      InPieces pieces;
      for (const TypedArray& cut : Cuts(pieces, one.array, random)) {
        EXPECT_EQ(NarrowestValues(std::optional<TypedArray>(cut)),
                  NarrowestValues(std::optional<TypedArray>(one.array)))
            << ElementName(type) << " " << last;
      }
    }
  }
}

// The arrays of some rows, right or wrong in one place.
class PiecesOfRows : public ::testing::TestWithParam<uint64_t> {
 protected:
  PiecesOfRows() : random_(GetParam()), slab_(*Slab::Create({.rows = 64, .entries = 4096, .results = 64}, memory_)) {}

  void MakeRows() {
    const auto rows = static_cast<size_t>(Between(random_, 0, 60));
    std::vector<int64_t> lengths(rows);
    std::vector<int64_t> offsets = {0};
    for (int64_t& length : lengths) {
      length = Between(random_, 0, 1) * Between(random_, 0, 50);
      offsets.push_back(offsets.back() + length);
    }
    std::vector<int64_t> indices(static_cast<size_t>(offsets.back()));
    for (int64_t& index : indices) index = Between(random_, 0, 4'000) == 0 ? 100 : Between(random_, 0, 99);
    std::vector<int64_t> values(indices.size());
    for (int64_t& value : values) value = Between(random_, -2000, 2000);
    if (Between(random_, 0, 5) == 0) offsets[static_cast<size_t>(Between(random_, 0, static_cast<int64_t>(rows)))] += 3;
    const auto integer = [&](int64_t least) { return kIntegers[Between(random_, least, 3)]; };
    numbers_.clear();
    if (Between(random_, 0, 1) == 0) {
      csr_.indptr = Add(integer(1), offsets);
    } else {
      csr_.row_lengths = Add(kIntegers[Between(random_, 0, 1)], lengths);
    }
    csr_.indices = Add(integer(0), indices);
    if (Between(random_, 0, 2) > 0) csr_.values = Add(kReals[Between(random_, 0, 2)], values);
    if (csr_.values.has_value() && !values.empty() && Between(random_, 0, 5) == 0) SpoilValue();
  }

  TypedArray Add(ElementType type, const std::vector<int64_t>& numbers) {
    numbers_.push_back(std::make_unique<Numbers>(type, numbers));
    return numbers_.back()->array;
  }

  // Bits of ones are not a number, in every type.
  void SpoilValue() {
    const size_t size = ElementSize(csr_.values->type);
    const auto at = static_cast<size_t>(Between(random_, 0, static_cast<int64_t>(csr_.values->count) - 1)) * size;
    std::fill_n(numbers_.back()->bytes.begin() + static_cast<ptrdiff_t>(at), size, std::byte{0xFF});
  }

  // What becomes of the rows, in words: an error, or every number of the packed batch.
  std::string Outcome(const CsrView& csr) {
    const auto shape = CheckShape(csr, {.max_rows = 64, .max_entries = 4096, .max_row_entries = 4096});
    if (!shape.ok()) return shape.status().ToString();
    std::string outcome = absl::StrCat(shape->rows, " rows ", shape->entries, " entries;");
    CsrCutter cutter(csr);
    while (!cutter.done()) {
      for (const CsrCutter::Part& part : cutter.Take({20, 300}, 4096, 100)) {
        absl::StrAppend(&outcome, " ", part.row, "+", part.rows);
      }
    }
    slab_->Open(std::make_shared<LoadedModel>(test::MakeModel(1, std::vector<float>(100, 1.0F), {}, Link::kIdentity),
                                              std::vector<std::unique_ptr<ResidentModel>>(), false),
                {.values = NarrowestValues(csr.values)});
    RowCursor cursor(csr);
    const auto packed = PackRows(csr, cursor, *slab_, *slab_->Claim(shape->rows, shape->entries, kWantScores));
    if (!packed.ok()) return packed.status().ToString();
    slab_->Seal();
    const BatchView& view = slab_->view();
    for (uint32_t r = 0; r <= view.rows; ++r) absl::StrAppend(&outcome, " ", view.row_begin[r]);
    for (uint32_t i = 0; i < view.entries; ++i) {
      absl::StrAppend(&outcome, " ", view.indices16[i]);
      if (view.values16 != nullptr) absl::StrAppend(&outcome, ":", view.values16[i]);
      if (view.values32 != nullptr) absl::StrAppend(&outcome, ":", view.values32[i]);
    }
    return outcome;
  }

  Random random_;
  test::PlainMemory memory_;
  std::unique_ptr<Slab> slab_;
  std::vector<std::unique_ptr<Numbers>> numbers_;
  CsrView csr_;
};

INSTANTIATE_TEST_SUITE_P(Seeds, PiecesOfRows, ::testing::Range<uint64_t>(0, 100));

TEST_P(PiecesOfRows, BecomeTheSameBatchOrTheSameError) {
  MakeRows();
  const std::string expected = Outcome(csr_);
  for (const uint64_t most : {1, 3, 9, 200}) {
    InPieces pieces;
    const CsrView cut = pieces.Cut(csr_, [&] { return static_cast<uint64_t>(Between(random_, 1, most)); });
    ASSERT_EQ(Outcome(cut), expected) << "pieces of up to " << most << " bytes";
  }
}

}  // namespace
}  // namespace widelane
