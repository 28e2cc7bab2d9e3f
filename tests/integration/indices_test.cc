// Indices outside the model, declared widths, and one huge row.

#include <gtest/gtest.h>

#include "tests/support/expect.h"
#include "tests/support/http.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"
#include "tests/support/ways.h"

namespace widelane::test {
namespace {

const WireRow kThreeRow = {{2, 3.0f}};

std::shared_ptr<const Model> R4Ignoring() {
  return MakeModel({.features = 4,
                    .weights = {0.5f, -1.25f, 2.0f, 0.25f},
                    .bias = {-0.75},
                    .link = Link::kSigmoid,
                    .unknown_features = UnknownFeatures::kIgnore});
}

class IndicesTest : public ::testing::TestWithParam<Way> {
 protected:
  static void SetUpTestSuite() { server_ = new TestServer({{"r4", R4()}, {"r4_ignoring", R4Ignoring()}}); }
  static void TearDownTestSuite() { delete server_; }
  static ScoreResult Score(const v1::ScoreRequest& request) {
    return test::Score(GetParam(), server_->stub(), request);
  }

  static TestServer* server_;
};
TestServer* IndicesTest::server_ = nullptr;

TEST_P(IndicesTest, RefusesAnIndexOutsideTheModelNamingRowAndPosition) {
  for (const int64_t index : {int64_t{4}, int64_t{-1}, int64_t{2147483647}, int64_t{1} << 40}) {
    // Entry 2 of all, the second of row 1.
    const v1::Rows rows = PlainRows({kThreeRow, {{0, 1.0f}, {index, 1.0f}}});
    ExpectBadField(Score(Request("r4", rows)).status, "rows.", {"row 1", "[2]", std::to_string(index)});
    ExpectNear(Score(Request("r4", PlainRows({kThreeRow}))).reply.scores(), {0.994779874});
  }
}

TEST_P(IndicesTest, RefusesAnIndexOutsideTheModelInEveryElementType) {
  for (const v1::ElementType type : {v1::U16, v1::U32, v1::I32, v1::I64}) {
    const v1::Rows rows = EncodedRows({kThreeRow, {{0, 1.0f}, {4, 1.0f}}}, {.indices = type});
    ExpectBadField(Score(Request("r4", rows)).status, "rows.indices[2]", {"row 1"});
  }
  for (const v1::ElementType type : {v1::I32, v1::I64}) {
    const v1::Rows rows = EncodedRows({kThreeRow, {{-1, 1.0f}}}, {.indices = type});
    ExpectBadField(Score(Request("r4", rows)).status, "rows.indices[1]", {"row 1", "-1"});
  }
}

TEST_P(IndicesTest, RefusesBigEndianIndices) {
  v1::Rows rows = EncodedRows({kThreeRow}, {});
  rows.mutable_indices()->set_data(std::string("\0\0\0\x01", 4));
  ExpectBadField(Score(Request("r4", rows)).status, "rows.indices[0]", {"16777216"});
}

TEST_P(IndicesTest, IgnoresAndCountsUnknownFeaturesWhereTheModelSaysSo) {
  const auto counted = [] {
    return MetricValue(server_->Metrics(), "widelane_ignored_features_total", {"model=\"r4_ignoring\""}).value_or(-1);
  };
  const double before = counted();
  uint64_t sent = 0;
  for (const int64_t index : {int64_t{4}, int64_t{2147483647}}) {
    const ScoreResult result = Score(Request("r4_ignoring", PlainRows({{{index, 7.0f}}, kThreeRow})));
    ExpectOk(result.status);
    ExpectNear(result.reply.scores(), {0.320821301, 0.994779874});
    EXPECT_EQ(result.reply.ignored_features(), 1u);
    ++sent;
  }
  // A negative index is no feature of any model.
  EXPECT_EQ(Score(Request("r4_ignoring", PlainRows({{{-1, 1.0f}}}))).status.error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(counted() - before, static_cast<double>(sent));
}

TEST_P(IndicesTest, TakesTheWidthFromTheModel) {
  const v1::Rows narrow = PlainRows({{{0, 1.0f}}});
  ExpectNear(Score(Request("r4", narrow)).reply.scores(), {0.437823});
  for (const uint64_t features : {2, 5}) {
    v1::Rows rows = narrow;
    rows.set_features(features);
    ExpectBadField(Score(Request("r4", rows)).status, "rows.features", {"4", std::to_string(features)});
  }
  v1::Rows rows = narrow;
  rows.set_features(4);
  ExpectNear(Score(Request("r4", rows)).reply.scores(), {0.437823});
}

class HugeRowTest : public ::testing::TestWithParam<Way> {};

// A million features of weight 0.1 and bias -100000; a row with all of them sums to next to nothing.
TEST_P(HugeRowTest, SumsExactlyAloneAndAmongShortRows) {
  constexpr uint32_t kWideRow = 1'000'000;
  TestServer server({{"tenth", MakeModel({.features = kWideRow,
                                          .weights = std::vector<float>(kWideRow, 0.1f),
                                          .bias = {-100000},
                                          .link = Link::kSigmoid})}});
  std::vector<uint32_t> indices(kWideRow);
  for (uint32_t i = 0; i < kWideRow; ++i) indices[i] = i;
  std::vector<uint32_t> lengths = {kWideRow};
  const auto request = [&] {
    v1::Rows rows;
    rows.mutable_indices()->set_type(v1::U32);
    rows.mutable_indices()->set_data(indices.data(), indices.size() * sizeof(uint32_t));
    rows.mutable_row_lengths()->set_type(v1::U32);
    rows.mutable_row_lengths()->set_data(lengths.data(), lengths.size() * sizeof(uint32_t));
    v1::ScoreRequest out = Request("tenth", rows);
    out.add_outputs(v1::SCORES);
    out.add_outputs(v1::RAW);
    return out;
  };
  const ScoreResult alone = Score(GetParam(), server.stub(), request());
  ExpectOk(alone.status);
  ExpectNear(alone.reply.raw(), {0.00149012}, 1e-8);
  ExpectNear(alone.reply.scores(), {0.500373});

  for (uint32_t row = 0; row < 4095; ++row) {
    for (uint32_t i = 0; i < 10; ++i) indices.push_back(row * 10 + i);
    lengths.push_back(10);
  }
  const ScoreResult among = Score(GetParam(), server.stub(), request());
  ExpectOk(among.status);
  ASSERT_EQ(among.reply.raw_size(), 4096);
  EXPECT_EQ(among.reply.raw(0), alone.reply.raw(0));
  for (int row = 1; row < 4096; ++row) ASSERT_NEAR(among.reply.raw(row), -99999, 1e-6);
}

TEST_P(HugeRowTest, RefusesARowLongerThanABatchNamingTheLimit) {
  TestServer server({{"r4", R4()}}, [](ServerConfig& config) { config.engine.slab.entries = 1000; });
  const auto row_of = [](size_t entries) { return Request("r4", PlainRows({{}, WireRow(entries, {2, 0.001f})})); };
  ExpectNear(Score(GetParam(), server.stub(), row_of(1000)).reply.scores(), {0.320821301, 0.777300});
  const grpc::Status status = Score(GetParam(), server.stub(), row_of(1001)).status;
  EXPECT_TRUE(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT ||
              status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  ExpectError(status, status.error_code(), {"row 1", "1001", "1000"});
}

INSTANTIATE_TEST_SUITE_P(BothWays, IndicesTest, ::testing::ValuesIn(kWays), WayName);
INSTANTIATE_TEST_SUITE_P(BothWays, HugeRowTest, ::testing::ValuesIn(kWays), WayName);

}  // namespace
}  // namespace widelane::test
