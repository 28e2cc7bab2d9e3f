// Offsets that do not start at 0, fall, or do not match the entries.

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/expect.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"
#include "tests/support/ways.h"

namespace widelane::test {
namespace {

const std::vector<int64_t> kIndices = {0, 1, 2, 0, 3};
const std::vector<float> kValues = {1, 2, 3, 4, -2};

v1::Rows Plain(const std::vector<int64_t>& indptr) { return PlainRows(indptr, kIndices, kValues); }

// The same arrays as bytes.
v1::Rows Bytes(v1::ElementType type, const std::vector<int64_t>& indptr) {
  v1::Rows rows;
  v1::Array& array = *rows.mutable_indptr();
  array.set_type(type);
  for (const int64_t offset : indptr) {
    array.mutable_data()->append(reinterpret_cast<const char*>(&offset), type == v1::I64 ? 8 : 4);
  }
  *rows.mutable_indices() = Encode(v1::U16, {kIndices.begin(), kIndices.end()});
  *rows.mutable_values() = Encode(v1::F32, {kValues.begin(), kValues.end()});
  return rows;
}

class OffsetsTest : public ::testing::TestWithParam<Way> {
 protected:
  static void SetUpTestSuite() { server_ = new TestServer({{"r4", R4()}}); }
  static void TearDownTestSuite() { delete server_; }

  static ScoreResult Score(const v1::Rows& rows) {
    return test::Score(GetParam(), server_->stub(), Request("r4", rows));
  }
  static void ExpectRefused(const v1::Rows& rows, const std::string& field,
                            const std::vector<std::string>& parts = {}) {
    SCOPED_TRACE(rows.ShortDebugString());
    ExpectBadField(Score(rows).status, field, parts);
    ExpectNear(Score(PlainRows({{{2, 3.0f}}})).reply.scores(), {0.994779874});
  }

  static TestServer* server_;
};
TestServer* OffsetsTest::server_ = nullptr;

TEST_P(OffsetsTest, AcceptsOffsetsThatMatch) {
  for (const v1::Rows& rows : {Plain({0, 2, 3, 5}), Bytes(v1::U32, {0, 2, 3, 5}), Bytes(v1::I32, {0, 2, 3, 5}),
                               Bytes(v1::I64, {0, 2, 3, 5})}) {
    ExpectNear(Score(rows).reply.scores(), {0.060087, 0.994780, 0.679179});
  }
}

TEST_P(OffsetsTest, RefusesOffsetsThatDoNotMatch) {
  const std::vector<std::vector<int64_t>> wrong = {{2, 3, 5}, {0, 3, 2, 5}, {0, 2, 3, 6}, {0, 2, 3}};
  for (const std::vector<int64_t>& indptr : wrong) {
    for (const v1::ElementType type : {v1::U32, v1::I32, v1::I64}) ExpectRefused(Bytes(type, indptr), "rows.indptr");
    ExpectRefused(Plain(indptr), "rows.");
  }
}

TEST_P(OffsetsTest, RefusesNegativeAndEnormousOffsets) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  ExpectRefused(Bytes(v1::I32, {-1, 2, 5}), "rows.indptr");
  for (const std::vector<int64_t>& indptr :
       {std::vector<int64_t>{-1, 2, 5}, {0, 2, kMax}, {0, kMax, 5}, {0, std::numeric_limits<int64_t>::min(), 5}}) {
    ExpectRefused(Bytes(v1::I64, indptr), "rows.indptr");
    ExpectRefused(Plain(indptr), "rows.");
  }
  ExpectRefused(Bytes(v1::U32, {0, 2, 0xFFFFFFFF}), "rows.indptr");
}

TEST_P(OffsetsTest, RefusesNoOffsets) {
  for (const v1::ElementType type : {v1::U32, v1::I32, v1::I64}) ExpectRefused(Bytes(type, {}), "rows.indptr");
  ExpectRefused(Plain({}), "rows");
}

TEST_P(OffsetsTest, RefusesRowLengthsThatDoNotMatch) {
  for (const std::vector<double>& lengths : {std::vector<double>{2, 1, 1}, {2, 1, 3}, {5, 65535}, {}}) {
    for (const v1::ElementType type : {v1::U16, v1::U32}) {
      v1::Rows rows = Plain({});
      *rows.mutable_row_lengths() = Encode(type, lengths);
      ExpectRefused(rows, "rows.row_lengths");
    }
  }
  v1::Rows rows = Plain({});
  *rows.mutable_row_lengths() = Encode(v1::U32, {4294967295.0, 6});  // the sum is 5 modulo 2^32
  ExpectRefused(rows, "rows.row_lengths");
}

TEST_P(OffsetsTest, RefusesValuesOfAnotherNumberThanIndices) {
  ExpectRefused(PlainRows({0, 2, 3, 5}, kIndices, {1, 2, 3, 4}), "rows.", {"5", "4"});
  v1::Rows rows = Bytes(v1::U32, {0, 2, 3, 5});
  *rows.mutable_values() = Encode(v1::F32, {1, 2, 3, 4});
  ExpectRefused(rows, "rows.values", {"5", "4"});
}

INSTANTIATE_TEST_SUITE_P(BothWays, OffsetsTest, ::testing::ValuesIn(kWays), WayName);

}  // namespace
}  // namespace widelane::test
