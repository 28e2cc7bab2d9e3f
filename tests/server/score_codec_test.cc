#include "server/front/score_codec.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "server/front/limits.h"
#include "tests/support/rows.h"
#include "widelane/engine/errors.h"
#include "widelane/v1/scoring.pb.h"

namespace widelane {
namespace {

using test::EncodedRows;
using test::PlainRows;

absl::Status Decode(const std::string& message, ScoreRequestView& view, const LimitsConfig& limits = {}) {
  return DecodeScoreRequest(message, limits, view);
}

// The field an invalid request is refused for.
std::string RefusedField(const v1::ScoreRequest& request) {
  ScoreRequestView view;
  const absl::Status status = Decode(request.SerializeAsString(), view);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return ErrorField(status).value_or("none");
}

v1::ScoreRequest GoodRequest() { return test::Request("m", EncodedRows({{{0, 1.5f}, {2, 2.0f}}, {{1, 0.5f}}}, {})); }

TEST(ScoreCodecTest, ReadsEveryField) {
  v1::ScoreRequest request = GoodRequest();
  request.set_version("7");
  request.add_outputs(v1::RAW);
  request.add_outputs(v1::TOP_K);
  request.set_top_k(3);
  request.set_stage_times(true);
  request.mutable_rows()->set_features(9);
  const std::string message = request.SerializeAsString();
  ScoreRequestView view;
  ASSERT_TRUE(Decode(message, view).ok());
  EXPECT_EQ(view.model, "m");
  EXPECT_EQ(view.version, "7");
  EXPECT_EQ(view.outputs, kReplyRaw | kReplyTopK);
  EXPECT_EQ(view.top_k, 3u);
  EXPECT_TRUE(view.stage_times);
  EXPECT_EQ(view.csr.features, 9u);
  EXPECT_EQ(view.csr.indices.count, 3u);
  ASSERT_TRUE(view.csr.indptr.has_value());
  EXPECT_EQ(view.csr.indptr->count, 3u);
}

TEST(ScoreCodecTest, LooksAtArraysWhereTheyAre) {
  const std::string message = GoodRequest().SerializeAsString();
  ScoreRequestView view;
  ASSERT_TRUE(Decode(message, view).ok());
  const auto* begin = reinterpret_cast<const std::byte*>(message.data());
  EXPECT_GE(view.csr.indices.data, begin);
  EXPECT_LT(view.csr.indices.data, begin + message.size());
}

TEST(ScoreCodecTest, AsksForTheMemoryOfLongPlainFieldsBeforeItTakesIt) {
  const size_t count = 10 * kFreePlainElements;
  const std::string message =
      test::Request("m", PlainRows({0, static_cast<int64_t>(count)}, std::vector<int64_t>(count, 1),
                                   std::vector<float>(count, 1)))
          .SerializeAsString();
  uint64_t taken = 0;
  ScoreRequestView view;
  const auto take = [&taken](uint64_t bytes) {
    taken += bytes;
    return absl::OkStatus();
  };
  ASSERT_TRUE(DecodeScoreRequest(message, {}, take, view).ok());
  EXPECT_EQ(taken, count * (sizeof(int64_t) + sizeof(float)));
  ScoreRequestView refused;
  const auto refuse = [](uint64_t /*bytes*/) { return absl::ResourceExhaustedError("full"); };
  EXPECT_EQ(DecodeScoreRequest(message, {}, refuse, refused).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LE(refused.plain_indices.capacity(), kFreePlainElements);
}

TEST(ScoreCodecTest, AsksForScoresUnlessTold) {
  const std::string message = GoodRequest().SerializeAsString();
  ScoreRequestView view;
  ASSERT_TRUE(Decode(message, view).ok());
  EXPECT_EQ(view.outputs, kReplyScores);
}

TEST(ScoreCodecTest, ReadsPlainNumbersPackedAndNot) {
  v1::Rows rows = PlainRows({0, 2}, {5, 300}, {0.5f, 2.0f});
  std::string message = test::Request("m", rows).SerializeAsString();
  // One more of each, not packed: fields 5, 6 (varints) and 7 (fixed32) of a second `rows` that is merged.
  const std::string more = std::string("\x28\x03\x30\x07\x3d", 5) + std::string("\x00\x00\x80\x3f", 4);
  message += std::string("\x1a", 1) + static_cast<char>(more.size()) + more;
  ScoreRequestView view;
  ASSERT_TRUE(Decode(message, view).ok());
  EXPECT_EQ(view.plain_indptr, (std::vector<int64_t>{0, 2, 3}));
  EXPECT_EQ(view.plain_indices, (std::vector<int64_t>{5, 300, 7}));
  EXPECT_EQ(view.plain_values, (std::vector<float>{0.5f, 2.0f, 1.0f}));
  EXPECT_EQ(view.csr.values->count, 3u);
}

TEST(ScoreCodecTest, SkipsUnknownFields) {
  std::string message = GoodRequest().SerializeAsString();
  message += std::string("\xa2\x06\x03", 3) + "abc";               // field 100, bytes
  message += std::string("\xa3\x06\x08\x01\xa4\x06", 6);           // field 100, a group with a varint in it
  message += std::string("\xa9\x06", 2) + std::string(8, '\x7f');  // field 101, fixed64
  ScoreRequestView view;
  EXPECT_TRUE(Decode(message, view).ok());
}

TEST(ScoreCodecTest, RefusesBothFormsOfAnArray) {
  v1::ScoreRequest request = GoodRequest();
  request.mutable_rows()->add_plain_indices(1);
  EXPECT_EQ(RefusedField(request), "rows.indices");
  request = GoodRequest();
  request.mutable_rows()->add_plain_indptr(1);
  EXPECT_EQ(RefusedField(request), "rows.indptr");
  request = GoodRequest();
  request.mutable_rows()->add_plain_values(1);
  EXPECT_EQ(RefusedField(request), "rows.values");
}

TEST(ScoreCodecTest, RefusesIndptrTogetherWithRowLengths) {
  v1::ScoreRequest request = GoodRequest();
  *request.mutable_rows()->mutable_row_lengths() = test::Encode(v1::U16, {2, 1});
  EXPECT_EQ(RefusedField(request), "rows.row_lengths");
}

TEST(ScoreCodecTest, RefusesRowsWithoutOffsets) {
  v1::ScoreRequest request = GoodRequest();
  request.mutable_rows()->clear_indptr();
  EXPECT_EQ(RefusedField(request), "rows.indptr");
  EXPECT_EQ(RefusedField(v1::ScoreRequest()), "rows.indptr");
}

TEST(ScoreCodecTest, RefusesTypesThatAreMissingOrUnknown) {
  v1::ScoreRequest request = GoodRequest();
  request.mutable_rows()->mutable_indices()->clear_type();
  EXPECT_EQ(RefusedField(request), "rows.indices");
  request.mutable_rows()->mutable_indices()->set_type(static_cast<v1::ElementType>(77));
  EXPECT_EQ(RefusedField(request), "rows.indices");
}

TEST(ScoreCodecTest, RefusesBytesThatAreNoWholeElements) {
  v1::ScoreRequest request = GoodRequest();
  request.mutable_rows()->mutable_values()->mutable_data()->push_back('x');
  EXPECT_EQ(RefusedField(request), "rows.values");
}

TEST(ScoreCodecTest, RefusesUnknownOutputs) {
  v1::ScoreRequest request = GoodRequest();
  request.add_outputs(static_cast<v1::Output>(9));
  EXPECT_EQ(RefusedField(request), "outputs");
  request.set_outputs(0, v1::OUTPUT_UNSPECIFIED);
  EXPECT_EQ(RefusedField(request), "outputs");
}

TEST(ScoreCodecTest, RefusesMoreRowsOrEntriesThanTheLimitNamingTheOption) {
  LimitsConfig limits;
  limits.max_request_rows = 2;
  limits.max_request_entries = 2;
  ScoreRequestView view;
  const std::string bytes = GoodRequest().SerializeAsString();
  const absl::Status entries = Decode(bytes, view, limits);
  EXPECT_EQ(ErrorLimit(entries), kMaxRequestEntries) << entries;
  const std::string plain = test::Request("m", PlainRows({0, 0, 0, 0, 0}, {})).SerializeAsString();
  const absl::Status rows = Decode(plain, view, limits);
  EXPECT_EQ(ErrorLimit(rows), kMaxRequestRows) << rows;
}

TEST(ScoreCodecTest, NeverTakesPlainValuesBeyondTheLimitForNone) {
  LimitsConfig limits;
  limits.max_request_entries = 2;
  ScoreRequestView view;
  const std::string message = test::Request("m", PlainRows({0, 1}, {0}, {1, 2, 3, 4, 5})).SerializeAsString();
  ASSERT_TRUE(Decode(message, view, limits).ok());
  ASSERT_TRUE(view.csr.values.has_value());
  EXPECT_NE(view.csr.values->count, view.csr.indices.count);  // which CheckShape refuses
}

TEST(ScoreCodecTest, SurvivesEveryTruncation) {
  v1::ScoreRequest request = GoodRequest();
  request.add_outputs(v1::SCORES);
  const std::string message = request.SerializeAsString();
  ScoreRequestView view;
  for (size_t size = 0; size < message.size(); ++size) {
    // A copy of exactly that size, so that sanitizers see a read behind it.
    const std::string cut(message.data(), size);
    const absl::Status status = Decode(cut, view);
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  }
}

TEST(ScoreCodecTest, SurvivesGarbage) {
  const std::string good = GoodRequest().SerializeAsString();
  std::mt19937 random(20240917);
  ScoreRequestView view;
  for (int round = 0; round < 20000; ++round) {
    SCOPED_TRACE(round);
    std::string message = good;
    for (int changes = 0; changes < 3; ++changes) message[random() % message.size()] = static_cast<char>(random());
    const std::string exact(message.data(), message.size() - random() % 4);
    const absl::Status status = Decode(exact, view);
    if (status.ok()) {
      EXPECT_LE(view.csr.indices.count, message.size());
    } else {
      EXPECT_FALSE(status.message().empty());
    }
  }
}

TEST(ScoreCodecTest, RefusesGarbageAsInvalid) {
  ScoreRequestView view;
  for (const std::string& message :
       {std::string("\xff\xff\xff"), std::string("\x1a\xff"), std::string("\x1a\x05\x0a", 3), std::string("\x07"),
        std::string("\x00\x00", 2), std::string("\x0c")}) {
    EXPECT_EQ(Decode(message, view).code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace widelane
