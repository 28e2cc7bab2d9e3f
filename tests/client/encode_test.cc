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

v1::Array EncodedValues(const std::vector<float>& values) {
  const std::vector<int64_t> indptr = {0, static_cast<int64_t>(values.size())};
  const std::vector<uint16_t> indices(values.size());
  return Encoded(
             {std::span<const int64_t>(indptr), std::span<const uint16_t>(indices), std::span<const float>(values), 0})
      .values();
}

// By the definition of binary16, without a shortcut.
float FromHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                        : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(EncodeRows, TakesHalfPrecisionForAllThatItHolds) {
  std::vector<float> values;
  std::vector<uint16_t> halves;
  for (int bits = 0; bits < 0x10000; ++bits) {
    if ((bits >> 10 & 31) == 31) continue;  // infinities and NaNs
    halves.push_back(static_cast<uint16_t>(bits));
    values.push_back(FromHalf(halves.back()));
  }
  const v1::Array array = EncodedValues(values);
  EXPECT_EQ(array.type(), v1::F16);
  EXPECT_EQ(Elements<uint16_t>(array), halves);

  const std::vector<int64_t> indptr = {0, static_cast<int64_t>(values.size())};
  const std::vector<uint16_t> indices(values.size());
  const std::vector<double> doubles(values.begin(), values.end());
  const v1::Rows rows = Encoded(
      {std::span<const int64_t>(indptr), std::span<const uint16_t>(indices), std::span<const double>(doubles), 0});
  EXPECT_EQ(Elements<uint16_t>(rows.values()), halves);
}

// Wherever in the array it is.
TEST(EncodeRows, TakesNoHalfPrecisionThatWouldChangeAValue) {
  using Limits = std::numeric_limits<float>;
  for (const float value : {0.1F, 2049.0F, 65505.0F, 65536.0F, 0x1p-25F, 0x1.8p-24F, 0x1.002p-14F, 0x1.FFFp-15F, 1e-40F,
                            Limits::max(), Limits::denorm_min(), Limits::infinity(), Limits::quiet_NaN()}) {
    for (const size_t place : {0, 2047, 2048, 4999}) {
      std::vector<float> values(5000, 0.5F);
      values[place] = value;
      const v1::Array array = EncodedValues(values);
      EXPECT_EQ(array.type(), v1::F32) << value;
      const std::vector<float> sent = Elements<float>(array);
      ASSERT_EQ(sent.size(), values.size());
      EXPECT_EQ(std::memcmp(sent.data(), values.data(), values.size() * sizeof(float)), 0) << value;
    }
  }
}

TEST(EncodeRows, LooksAtEveryValueAndIndex) {
  for (const size_t place : {0, 2047, 2048, 4999}) {
    std::vector<float> values(5000, 1);
    EXPECT_EQ(EncodedValues(values).type(), v1::ELEMENT_TYPE_UNSPECIFIED);
    values[place] = 0;
    EXPECT_EQ(EncodedValues(values).type(), v1::F16);
    const std::vector<uint32_t> indptr = {0, 5000};
    std::vector<int32_t> indices(5000, 65535);
    const RowsView rows{std::span<const uint32_t>(indptr), std::span<const int32_t>(indices), {}, 0};
    EXPECT_EQ(Encoded(rows).indices().type(), v1::U16);
    indices[place] = 65536;
    EXPECT_EQ(Encoded(rows).indices().type(), v1::U32);
    indices[place] = -1;
    EXPECT_EQ(Encoded(rows).indices().type(), v1::I64);
  }
}

struct Contexts {
  v1::ScoreRequest message;
  absl::Status status;
};

Contexts EncodedContexts(int rows, int contexts, const std::vector<uint32_t>& context_of) {
  Rows some, shared;
  for (int r = 0; r < rows; ++r) some.Add({r});
  for (int c = 0; c < contexts; ++c) shared.Add({c, 9});
  Contexts result;
  result.status = EncodeContexts(some, shared, context_of, result.message);
  return result;
}

TEST(EncodeContexts, SendsOnlyWhatThereIs) {
  const Contexts none = EncodedContexts(2, 0, {});
  EXPECT_TRUE(none.status.ok());
  EXPECT_FALSE(none.message.has_contexts());
  const Contexts one = EncodedContexts(2, 1, {});
  EXPECT_TRUE(one.status.ok()) << one.status;
  EXPECT_THAT(Elements<uint16_t>(one.message.contexts().indices()), ElementsAre(0, 9));
  EXPECT_FALSE(one.message.has_context_of());
  const Contexts several = EncodedContexts(3, 2, {1, 0, 1});
  EXPECT_TRUE(several.status.ok()) << several.status;
  EXPECT_EQ(several.message.context_of().type(), v1::U16);
  EXPECT_THAT(Elements<uint16_t>(several.message.context_of()), ElementsAre(1, 0, 1));
  EXPECT_EQ(EncodedContexts(2, 1, {0, 65536}).message.context_of().type(), v1::U32);
}

TEST(EncodeContexts, RefusesRowsWithoutAContext) {
  const auto message = [](const Contexts& contexts) {
    EXPECT_EQ(contexts.status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(contexts.status.message());
  };
  EXPECT_THAT(message(EncodedContexts(3, 2, {})), HasSubstr("context_of has 0 elements and there are 3 rows"));
  EXPECT_THAT(message(EncodedContexts(3, 2, {1})), HasSubstr("context_of has 1 elements and there are 3 rows"));
  const std::vector<int64_t> indices = {1, 2};
  v1::ScoreRequest out;
  const absl::Status status = EncodeContexts({}, {{}, std::span<const int64_t>(indices), {}, 0}, {}, out);
  EXPECT_EQ(status.message(), "contexts: indptr is empty and there are 2 indices");
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
