#include "src/encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace widelane::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::vector<T> Elements(const v1::Array& array) {
  std::vector<T> elements(array.data().size() / sizeof(T));
  if (!elements.empty()) std::memcpy(elements.data(), array.data().data(), array.data().size());
  return elements;
}

v1::Rows Encoded(const RowsView& rows) {
  v1::Rows message;
  EXPECT_TRUE(EncodeRows(rows, message).ok());
  return message;
}

TEST(EncodeRows, TakesSixteenBitsAndNoValuesWhereTheyDo) {
  Rows rows;
  rows.Add({65535, 0});
  rows.Add({});
  rows.Add({7}, {1.0F});
  const v1::Rows message = Encoded(rows);
  EXPECT_EQ(message.row_lengths().type(), v1::U16);
  EXPECT_THAT(Elements<uint16_t>(message.row_lengths()), ElementsAre(2, 0, 1));
  EXPECT_EQ(message.indices().type(), v1::U16);
  EXPECT_THAT(Elements<uint16_t>(message.indices()), ElementsAre(65535, 0, 7));
  EXPECT_FALSE(message.has_values());
  EXPECT_FALSE(message.has_indptr());
}

TEST(EncodeRows, WidensIndicesAsFarAsNeeded) {
  Rows rows;
  rows.Add({65536, 4294967295});
  EXPECT_EQ(Encoded(rows).indices().type(), v1::U32);
  EXPECT_THAT(Elements<uint32_t>(Encoded(rows).indices()), ElementsAre(65536, 4294967295));
  rows.Add({4294967296});
  EXPECT_EQ(Encoded(rows).indices().type(), v1::I64);
}

TEST(EncodeRows, LeavesNegativeIndicesToTheServer) {
  const std::vector<int32_t> indptr = {0, 2};
  const std::vector<int32_t> indices = {3, -1};
  const v1::Rows message = Encoded({std::span<const int32_t>(indptr), std::span<const int32_t>(indices), {}, 0});
  EXPECT_EQ(message.indices().type(), v1::I64);
  EXPECT_THAT(Elements<int64_t>(message.indices()), ElementsAre(3, -1));
}

TEST(EncodeRows, WidensRowLengthsAsFarAsNeeded) {
  const std::vector<uint16_t> indices(65536, 1);
  std::vector<uint32_t> indptr = {0, 65535, 65536};
  RowsView rows{std::span<const uint32_t>(indptr), std::span<const uint16_t>(indices), {}, 0};
  EXPECT_EQ(Encoded(rows).row_lengths().type(), v1::U16);
  indptr = {0, 65536};
  rows.indptr = std::span<const uint32_t>(indptr);
  EXPECT_EQ(Encoded(rows).row_lengths().type(), v1::U32);
  EXPECT_THAT(Elements<uint32_t>(Encoded(rows).row_lengths()), ElementsAre(65536));
}

TEST(EncodeRows, RoundsDoublesUnlessOneIsBeyondFloat) {
  const std::vector<int64_t> indptr = {0, 2};
  const std::vector<int64_t> indices = {0, 1};
  std::vector<double> values = {0.1, std::numeric_limits<double>::quiet_NaN()};
  RowsView rows{std::span<const int64_t>(indptr), std::span<const int64_t>(indices), std::span<const double>(values),
                0};
  EXPECT_EQ(Encoded(rows).values().type(), v1::F32);
  EXPECT_EQ(Elements<float>(Encoded(rows).values())[0], 0.1F);
  values[1] = 1e39;
  EXPECT_EQ(Encoded(rows).values().type(), v1::F64);
  EXPECT_THAT(Elements<double>(Encoded(rows).values()), ElementsAre(0.1, 1e39));
}

TEST(EncodeRows, EncodesNoRowsAndNoEntries) {
  EXPECT_EQ(Encoded(RowsView{}).row_lengths().data(), "");
  Rows rows;
  rows.Add({});
  EXPECT_EQ(Encoded(rows).row_lengths().data().size(), 2);
}

TEST(EncodeRows, PassesTheNumberOfFeaturesOn) {
  RowsView rows;
  rows.features = 123;
  EXPECT_EQ(Encoded(rows).features(), 123);
}

TEST(EncodeRows, RefusesOffsetsThatMakeNoRows) {
  const std::vector<int64_t> indices = {0, 1, 2};
  const auto message = [&](const std::vector<int64_t>& indptr) {
    v1::Rows out;
    const absl::Status status =
        EncodeRows({std::span<const int64_t>(indptr), std::span<const int64_t>(indices), {}, 0}, out);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message({}), HasSubstr("indptr is empty and there are 3 indices"));
  EXPECT_THAT(message({1, 3}), HasSubstr("indptr[0] is 1"));
  EXPECT_THAT(message({0, 2, 1, 3}), HasSubstr("indptr[2] is 1, below the 2 before it"));
  EXPECT_THAT(message({0, 2}), HasSubstr("ends at 2 and there are 3 indices"));
}

TEST(EncodeRows, RefusesAnotherNumberOfValues) {
  const std::vector<int64_t> indptr = {0, 1};
  const std::vector<int64_t> indices = {0};
  const std::vector<float> values = {1, 1};
  v1::Rows out;
  const absl::Status status = EncodeRows(
      {std::span<const int64_t>(indptr), std::span<const int64_t>(indices), std::span<const float>(values), 0}, out);
  EXPECT_THAT(std::string(status.message()), HasSubstr("there are 2 values and 1 indices"));
  Rows rows;
  EXPECT_FALSE(rows.Add({1, 2}, {1.0F}));
  EXPECT_EQ(rows.rows(), 0);
}

}  // namespace
}  // namespace widelane::client
