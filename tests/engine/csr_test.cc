#include "widelane/engine/csr.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "widelane/engine/errors.h"

namespace widelane {
namespace {

constexpr CsrLimits kLimits = {.max_rows = 100, .max_entries = 50, .max_row_entries = 20};

template <typename T>
TypedArray ArrayOf(ElementType type, const std::vector<T>& data) {
  return TypedArray::Of(type, data.data(), data.size());
}

// Five entries with five values; the rest is up to the test.
class CheckShapeTest : public ::testing::Test {
 protected:
  CheckShapeTest() {
    csr_.indices = ArrayOf(ElementType::kU32, indices_);
    csr_.values = ArrayOf(ElementType::kF32, values_);
  }

  absl::StatusOr<CsrShape> WithIndptr(std::vector<int64_t> indptr) {
    indptr_ = std::move(indptr);
    csr_.indptr = ArrayOf(ElementType::kI64, indptr_);
    return CheckShape(csr_, kLimits);
  }

  absl::StatusOr<CsrShape> WithLengths(std::vector<uint32_t> lengths) {
    lengths_ = std::move(lengths);
    csr_.row_lengths = ArrayOf(ElementType::kU32, lengths_);
    return CheckShape(csr_, kLimits);
  }

  static void ExpectRefused(const absl::StatusOr<CsrShape>& shape, const std::string& field, const std::string& words) {
    ASSERT_FALSE(shape.ok());
    EXPECT_EQ(shape.status().code(), absl::StatusCode::kInvalidArgument) << shape.status();
    EXPECT_EQ(ErrorField(shape.status()), field) << shape.status();
    EXPECT_TRUE(absl::StrContains(shape.status().message(), words)) << shape.status();
  }

  const std::vector<uint32_t> indices_ = {0, 1, 2, 0, 3};
  const std::vector<float> values_ = {1, 2, 3, 4, -2};
  std::vector<int64_t> indptr_;
  std::vector<uint32_t> lengths_;
  CsrView csr_;
};

TEST_F(CheckShapeTest, CountsRowsAndEntries) {
  const auto shape = WithIndptr({0, 2, 3, 5});
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->rows, 3U);
  EXPECT_EQ(shape->entries, 5U);
}

TEST_F(CheckShapeTest, TakesEmptyRowsAnywhere) {
  EXPECT_EQ(WithIndptr({0, 0, 5, 5, 5})->rows, 4U);
  csr_.indptr.reset();
  EXPECT_EQ(WithLengths({0, 5, 0, 0})->rows, 4U);
}

TEST_F(CheckShapeTest, RefusesIndptrThatDoesNotStartAtZero) {
  ExpectRefused(WithIndptr({2, 3, 5}), "indptr[0]", "is 2");
  ExpectRefused(WithIndptr({-1, 2, 5}), "indptr[0]", "is -1");
}

TEST_F(CheckShapeTest, RefusesIndptrThatFalls) { ExpectRefused(WithIndptr({0, 3, 2, 5}), "indptr[2]", "less than 3"); }

TEST_F(CheckShapeTest, RefusesIndptrThatGoesPastTheEntries) {
  ExpectRefused(WithIndptr({0, 2, 3, 6}), "indptr[3]", "is 6");
  ExpectRefused(WithIndptr({0, 2, std::numeric_limits<int64_t>::max()}), "indptr[2]", "9223372036854775807");
  ExpectRefused(WithIndptr({0, std::numeric_limits<int64_t>::min(), 5}), "indptr[1]", "-9223372036854775808");
}

TEST_F(CheckShapeTest, RefusesEntriesLeftOver) { ExpectRefused(WithIndptr({0, 2, 3}), "indptr[2]", "5"); }

TEST_F(CheckShapeTest, RefusesIndptrWithoutOffsets) { ExpectRefused(WithIndptr({}), "indptr", "empty"); }

TEST_F(CheckShapeTest, RefusesLengthsThatDoNotAddUp) {
  ExpectRefused(WithLengths({2, 4}), "row_lengths[1]", "4");
  ExpectRefused(WithLengths({2, 2}), "row_lengths", "add up to 4");
  ExpectRefused(WithLengths({}), "row_lengths", "add up to 0");
  ExpectRefused(WithLengths({0xFFFFFFFF, 0xFFFFFFFF}), "row_lengths[0]", "4294967295");
}

TEST_F(CheckShapeTest, RefusesValuesOfAnotherCount) {
  csr_.values->count = 4;
  ExpectRefused(WithIndptr({0, 2, 3, 5}), "values", "4 values and 5 indices");
}

TEST_F(CheckShapeTest, RefusesBothFormsOfRowsAndNone) {
  ExpectRefused(CheckShape(csr_, kLimits), "indptr", "missing");
  ASSERT_TRUE(WithIndptr({0, 5}).ok());
  ExpectRefused(WithLengths({5}), "row_lengths", "together");
}

TEST_F(CheckShapeTest, RefusesElementTypesThatDoNotFit) {
  ASSERT_TRUE(WithIndptr({0, 5}).ok());
  for (const ElementType type : {ElementType::kU16, ElementType::kF32, ElementType::kF64}) {
    csr_.indptr->type = type;
    ExpectRefused(CheckShape(csr_, kLimits), "indptr", ElementName(type));
  }
  csr_.indptr->type = ElementType::kI64;
  csr_.indices.type = ElementType::kF32;
  ExpectRefused(CheckShape(csr_, kLimits), "indices", "f32");
  csr_.indices.type = ElementType::kU32;
  csr_.values->type = ElementType::kI32;
  ExpectRefused(CheckShape(csr_, kLimits), "values", "i32");
  csr_.values->type = ElementType::kF32;
  csr_.indptr.reset();
  csr_.row_lengths = ArrayOf(ElementType::kI32, indices_);
  ExpectRefused(CheckShape(csr_, kLimits), "row_lengths", "i32");
}

TEST_F(CheckShapeTest, TakesEveryTypeOfOffset) {
  const std::vector<int32_t> i32 = {0, 2, 5};
  const std::vector<uint32_t> u32 = {0, 2, 5};
  const std::vector<uint16_t> u16 = {2, 3};
  csr_.indptr = ArrayOf(ElementType::kI32, i32);
  EXPECT_EQ(CheckShape(csr_, kLimits)->rows, 2U);
  csr_.indptr = ArrayOf(ElementType::kU32, u32);
  EXPECT_EQ(CheckShape(csr_, kLimits)->rows, 2U);
  csr_.indptr.reset();
  csr_.row_lengths = ArrayOf(ElementType::kU16, u16);
  EXPECT_EQ(CheckShape(csr_, kLimits)->rows, 2U);
}

TEST_F(CheckShapeTest, RefusesNegativeNarrowOffsets) {
  const std::vector<int32_t> i32 = {0, -2, 5};
  csr_.indptr = ArrayOf(ElementType::kI32, i32);
  ExpectRefused(CheckShape(csr_, kLimits), "indptr[1]", "is -2");
}

TEST_F(CheckShapeTest, TakesUnalignedBytes) {
  std::vector<std::byte> bytes(1 + 3 * sizeof(int64_t));
  const int64_t offsets[] = {0, 4, 5};
  std::memcpy(bytes.data() + 1, offsets, sizeof(offsets));
  csr_.indptr = TypedArray{ElementType::kI64, bytes.data() + 1, 3};
  EXPECT_EQ(CheckShape(csr_, kLimits)->rows, 2U);
}

TEST_F(CheckShapeTest, NamesTheLimitThatIsPassed) {
  const std::vector<uint32_t> many(51);
  csr_.values.reset();
  csr_.indices = ArrayOf(ElementType::kU32, many);
  const auto entries = WithIndptr({0, 51});
  EXPECT_EQ(entries.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(entries.status().message(), "50")) << entries.status();

  csr_.indices.count = 0;
  const auto rows = WithIndptr(std::vector<int64_t>(102));
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(rows.status().message(), "100")) << rows.status();
  EXPECT_TRUE(WithIndptr(std::vector<int64_t>(101)).ok());

  csr_.indices.count = 21;
  ExpectRefused(WithIndptr({0, 0, 21}), "indptr[1]", "limit on entries of a row is 20");
}

TEST_F(CheckShapeTest, HoldsTheProofsBoundWhateverTheLimits) {
  const std::vector<uint16_t> zeros(kMaxRowEntries + 1);
  const CsrLimits open = {.max_rows = 10, .max_entries = ~uint64_t{0}, .max_row_entries = ~uint64_t{0}};
  CsrView csr;
  csr.indices = ArrayOf(ElementType::kU16, zeros);
  const std::vector<uint32_t> offsets = {0, static_cast<uint32_t>(zeros.size())};
  csr.indptr = ArrayOf(ElementType::kU32, offsets);
  ExpectRefused(CheckShape(csr, open), "indptr[0]", "16777215");
  const std::vector<uint32_t> two = {0, 1, static_cast<uint32_t>(zeros.size())};
  csr.indptr = ArrayOf(ElementType::kU32, two);
  EXPECT_TRUE(CheckShape(csr, open).ok());
}

TEST(RowCursor, WalksBothForms) {
  const std::vector<uint32_t> offsets = {0, 2, 2, 5};
  const std::vector<uint16_t> lengths = {2, 0, 3};
  CsrView by_offset;
  by_offset.indptr = ArrayOf(ElementType::kU32, offsets);
  CsrView by_length;
  by_length.row_lengths = ArrayOf(ElementType::kU16, lengths);
  for (const CsrView& csr : {by_offset, by_length}) {
    RowCursor cursor(csr);
    uint64_t begin = 0;
    for (uint64_t row = 0; row < 3; ++row, cursor.Next()) {
      EXPECT_EQ(cursor.row(), row);
      EXPECT_EQ(cursor.begin(), begin);
      EXPECT_EQ(cursor.length(), lengths[row]);
      begin += lengths[row];
    }
    EXPECT_EQ(cursor.begin(), 5U);
  }
}

TEST(Elements, HaveSizesAndNames) {
  EXPECT_EQ(ElementSize(ElementType::kU16), 2U);
  EXPECT_EQ(ElementSize(ElementType::kF16), 2U);
  EXPECT_EQ(ElementSize(ElementType::kI32), 4U);
  EXPECT_EQ(ElementSize(ElementType::kF64), 8U);
  EXPECT_STREQ(ElementName(ElementType::kI64), "i64");
  EXPECT_STREQ(ElementName(ElementType::kF16), "f16");
}

TEST(FieldErrors, CarryTheirFieldThroughOtherLayers) {
  const absl::Status status = FieldError("indices[17]", "is wrong");
  EXPECT_EQ(status.message(), "indices[17]: is wrong");
  EXPECT_EQ(ErrorField(status), "indices[17]");
  EXPECT_EQ(ErrorField(absl::InvalidArgumentError("indices: x")), std::nullopt);
  EXPECT_EQ(ErrorField(absl::OkStatus()), std::nullopt);
}

}  // namespace
}  // namespace widelane
