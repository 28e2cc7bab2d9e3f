// Every element type, plain fields, and arrays that are not what they say.

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/expect.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

const std::vector<WireRow> kThreeRows = {
    {{2, 1.5f}, {0, 2.0f}, {2, 0.5f}}, {}, {{3, -2.0f}}, {{1, 0.25f}, {0, 1024.0f}}};

class ElementTypesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new TestServer({{"r4", R4()}}); }
  static void TearDownTestSuite() { delete server_; }

  static std::vector<double> Raw(const v1::Rows& rows) {
    v1::ScoreRequest request = Request("r4", rows);
    request.add_outputs(v1::RAW);
    const ScoreResult result = server_->Score(request);
    ExpectOk(result.status);
    return {result.reply.raw().begin(), result.reply.raw().end()};
  }

  static void ExpectRefused(const v1::Rows& rows, const std::string& field,
                            const std::vector<std::string>& parts = {}) {
    SCOPED_TRACE(rows.ShortDebugString());
    ExpectBadField(server_->Score(Request("r4", rows)).status, field, parts);
  }

  static TestServer* server_;
};
TestServer* ElementTypesTest::server_ = nullptr;

TEST_F(ElementTypesTest, GivesTheSameBitsForAll) {
  const std::vector<double> plain = Raw(PlainRows(kThreeRows));
  ExpectNear(plain, {4.25, -0.75, -1.25, 510.9375});
  for (const Encoding& offsets :
       {Encoding{.offsets = v1::U32}, Encoding{.offsets = v1::I32}, Encoding{.offsets = v1::I64},
        Encoding{.row_lengths = true, .offsets = v1::U16}, Encoding{.row_lengths = true, .offsets = v1::U32}}) {
    for (const v1::ElementType indices : {v1::U16, v1::U32, v1::I32, v1::I64}) {
      for (const v1::ElementType values : {v1::F16, v1::F32, v1::F64}) {
        Encoding encoding = offsets;
        encoding.indices = indices;
        encoding.values = values;
        EXPECT_EQ(Raw(EncodedRows(kThreeRows, encoding)), plain) << indices << " " << values << " " << offsets.offsets;
      }
    }
  }
}

TEST_F(ElementTypesTest, ValuesThatAreAbsentAreOne) {
  const std::vector<WireRow> ones = {{{2, 1.0f}, {0, 1.0f}}, {{3, 1.0f}}};
  const std::vector<double> expected = {1.75, -0.5};
  ExpectNear(Raw(PlainRows({0, 2, 3}, {2, 0, 3})), expected);
  EXPECT_EQ(Raw(EncodedRows(ones, {.values = v1::ELEMENT_TYPE_UNSPECIFIED})), Raw(PlainRows(ones)));
  EXPECT_EQ(Raw(EncodedRows(ones, {})), Raw(PlainRows({0, 2, 3}, {2, 0, 3})));
}

TEST_F(ElementTypesTest, TakesBytesAndPlainFieldsTogether) {
  v1::Rows rows = EncodedRows(kThreeRows, {});
  rows.clear_values();
  *rows.mutable_plain_values() = PlainRows(kThreeRows).plain_values();
  EXPECT_EQ(Raw(rows), Raw(PlainRows(kThreeRows)));
}

TEST_F(ElementTypesTest, RefusesAnArrayGivenTwice) {
  const v1::Rows plain = PlainRows(kThreeRows);
  v1::Rows rows = EncodedRows(kThreeRows, {});
  *rows.mutable_plain_indptr() = plain.plain_indptr();
  ExpectRefused(rows, "rows.");
  rows = EncodedRows(kThreeRows, {});
  *rows.mutable_plain_indices() = plain.plain_indices();
  ExpectRefused(rows, "rows.");
  rows = EncodedRows(kThreeRows, {});
  *rows.mutable_plain_values() = plain.plain_values();
  ExpectRefused(rows, "rows.");
  rows = EncodedRows(kThreeRows, {});
  *rows.mutable_row_lengths() = Encode(v1::U32, {3, 0, 1, 2});
  ExpectRefused(rows, "rows.");
  rows = plain;
  *rows.mutable_row_lengths() = Encode(v1::U32, {3, 0, 1, 2});
  ExpectRefused(rows, "rows.");
}

TEST_F(ElementTypesTest, RefusesTypesAnArrayCannotHave) {
  const v1::Rows good = EncodedRows(kThreeRows, {});
  for (const v1::ElementType type : {v1::F16, v1::F32, v1::F64, v1::ELEMENT_TYPE_UNSPECIFIED}) {
    v1::Rows rows = good;
    rows.mutable_indices()->set_type(type);
    ExpectRefused(rows, "rows.indices");
  }
  for (const v1::ElementType type : {v1::U16, v1::U32, v1::I32, v1::I64, v1::ELEMENT_TYPE_UNSPECIFIED}) {
    v1::Rows rows = good;
    rows.mutable_values()->set_type(type);
    ExpectRefused(rows, "rows.values");
  }
  for (const v1::ElementType type : {v1::U16, v1::F32, v1::ELEMENT_TYPE_UNSPECIFIED}) {
    v1::Rows rows = good;
    rows.mutable_indptr()->set_type(type);
    ExpectRefused(rows, "rows.indptr");
  }
  for (const v1::ElementType type : {v1::I32, v1::I64, v1::F64, v1::ELEMENT_TYPE_UNSPECIFIED}) {
    v1::Rows rows = EncodedRows(kThreeRows, {.row_lengths = true});
    rows.mutable_row_lengths()->set_type(type);
    ExpectRefused(rows, "rows.row_lengths");
  }
  v1::Rows rows = good;
  rows.mutable_indices()->set_type(static_cast<v1::ElementType>(77));
  ExpectRefused(rows, "rows.indices");
}

TEST_F(ElementTypesTest, RefusesBytesThatAreNoWholeNumberOfElements) {
  v1::Rows rows = EncodedRows(kThreeRows, {});
  rows.mutable_indices()->mutable_data()->push_back('\0');
  ExpectRefused(rows, "rows.indices", {"25"});
  rows = EncodedRows(kThreeRows, {});
  rows.mutable_values()->mutable_data()->pop_back();
  ExpectRefused(rows, "rows.values", {"23"});
  rows = EncodedRows(kThreeRows, {.offsets = v1::I64});
  rows.mutable_indptr()->mutable_data()->append("abc");
  ExpectRefused(rows, "rows.indptr", {"43"});
}

TEST_F(ElementTypesTest, RefusesValuesThatAreNoNumbersNamingRowAndPosition) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity}) {
    for (const v1::ElementType type : {v1::F32, v1::F64}) {
      v1::Rows rows = EncodedRows(kThreeRows, {.values = type});
      *rows.mutable_values() = Encode(type, {1, 1, 1, 1, value, 1});
      ExpectRefused(rows, "rows.values[4]", {"row 3"});
    }
    v1::Rows rows = PlainRows(kThreeRows);
    rows.set_plain_values(4, static_cast<float>(value));
    ExpectRefused(rows, "rows.", {"row 3", "[4]"});
  }
  for (const uint16_t half : {uint16_t{0x7C00}, uint16_t{0xFC00}, uint16_t{0x7E01}}) {
    v1::Rows rows = EncodedRows(kThreeRows, {.values = v1::F16});
    rows.mutable_values()->mutable_data()->replace(8, 2, reinterpret_cast<const char*>(&half), 2);
    ExpectRefused(rows, "rows.values[4]", {"row 3"});
  }
}

TEST_F(ElementTypesTest, RefusesDoublesBeyondFloat32) {
  for (const double value : {1e39, -1e300}) {
    v1::Rows rows = EncodedRows(kThreeRows, {.values = v1::F64});
    *rows.mutable_values() = Encode(v1::F64, {1, value, 1, 1, 1, 1});
    ExpectRefused(rows, "rows.values[1]", {"row 0"});
  }
}

TEST_F(ElementTypesTest, RefusesIndicesAndOffsetsBeyondTheirRange) {
  v1::Rows rows = PlainRows(kThreeRows);
  rows.set_plain_indices(5, std::numeric_limits<int64_t>::min());
  ExpectRefused(rows, "rows.", {"row 3", "[5]"});
  rows.set_plain_indices(5, (int64_t{1} << 32) + 1);  // 1 modulo 2^32
  ExpectRefused(rows, "rows.", {"row 3", "[5]"});
}

}  // namespace
}  // namespace widelane::test
