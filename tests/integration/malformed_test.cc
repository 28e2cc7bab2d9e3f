// Bytes that are no ScoreRequest, or an unusual one.

#include <gtest/gtest.h>

#include <random>

#include "tests/support/expect.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

class MalformedTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new TestServer({{"r4", R4()}}); }
  static void TearDownTestSuite() { delete server_; }

  static std::string Good() {
    v1::ScoreRequest request = Request("r4", EncodedRows({{{2, 3.0f}}, {{0, 1.0f}, {1, 2.0f}}}, {}));
    request.add_outputs(v1::SCORES);
    request.add_outputs(v1::RAW);
    request.set_version("1");
    request.set_top_k(1);
    return request.SerializeAsString();
  }

  static RawResult Send(const std::string& bytes) { return CallRaw(server_->channel(), kScoreMethod, bytes); }

  static std::vector<float> ScoresOf(const std::string& bytes) {
    const RawResult result = Send(bytes);
    ExpectOk(result.status);
    v1::ScoreReply reply;
    EXPECT_TRUE(reply.ParseFromString(result.reply));
    return {reply.scores().begin(), reply.scores().end()};
  }

  static void ExpectAlive() { ExpectNear(server_->Scores(Request("r4", PlainRows({{{2, 3.0f}}}))), {0.994779874}); }

  static TestServer* server_;
};
TestServer* MalformedTest::server_ = nullptr;

// Good, or refused as the caller's fault.
bool Answered(const RawResult& result) {
  switch (result.status.error_code()) {
    case grpc::StatusCode::OK:
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return true;
    default:
      return false;
  }
}

TEST_F(MalformedTest, RefusesEveryTruncation) {
  const std::string good = Good();
  ExpectNear(ScoresOf(good), {0.994779874, 0.060087});
  for (size_t length = 0; length < good.size(); ++length) {
    const RawResult result = Send(good.substr(0, length));
    EXPECT_TRUE(Answered(result)) << length << ": " << result.status.error_message();
  }
  ExpectAlive();
}

TEST_F(MalformedTest, SurvivesRandomChanges) {
  constexpr uint32_t kSeed = 20261130;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  const std::string good = Good();
  for (int round = 0; round < (kSanitized ? 300 : 2000); ++round) {
    std::string bytes = good;
    const size_t changes = 1 + random() % 3;
    for (size_t i = 0; i < changes; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    const RawResult result = Send(bytes);
    ASSERT_TRUE(Answered(result)) << round << ": " << result.status.error_code() << " "
                                  << result.status.error_message();
  }
  ExpectAlive();
}

TEST_F(MalformedTest, RefusesGarbage) {
  for (const std::string& bytes :
       {std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11), std::string(100, '\0'),
        std::string("\x1a\xff\xff\xff\xff\x0f", 6), std::string("hello, server")}) {
    EXPECT_EQ(Send(bytes).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  ExpectAlive();
}

TEST_F(MalformedTest, EmptyMessageNamesAFieldThatIsMissing) {
  const grpc::Status status = Send("").status;
  ExpectError(status, grpc::StatusCode::INVALID_ARGUMENT, {"is missing"});
  EXPECT_EQ(BadFields(status).size(), 1u);
}

TEST_F(MalformedTest, SkipsUnknownFields) {
  // Field 99 as a varint, 64 bits, a string, a group and 32 bits.
  const std::string unknown(
      "\x98\x06\x05\x99\x06"
      "12345678"
      "\x9a\x06\x03"
      "abc"
      "\x9b\x06\x08\x01\x9c\x06\x9d\x06"
      "1234",
      31);
  ExpectNear(ScoresOf(Good() + unknown), {0.994779874, 0.060087});
  ExpectNear(ScoresOf(unknown + Good()), {0.994779874, 0.060087});
}

TEST_F(MalformedTest, ReadsRepeatedFieldsThatAreNotPacked) {
  // rows { plain_indptr: 0, 1; plain_indices: 2; plain_values: 3 }, model "r4".
  const std::string rows("\x28\x00\x28\x01\x30\x02\x3d\x00\x00\x40\x40", 11);
  const std::string message = std::string("\x0a\x02r4\x1a", 5) + static_cast<char>(rows.size()) + rows;
  v1::ScoreRequest request;
  ASSERT_TRUE(request.ParseFromString(message));
  ASSERT_EQ(request.rows().plain_values(0), 3.0f);
  ExpectNear(ScoresOf(message), {0.994779874});
}

TEST_F(MalformedTest, LastOfARepeatedScalarCounts) {
  v1::ScoreRequest first = Request("nothing", {});
  v1::ScoreRequest second = Request("r4", PlainRows({{{2, 3.0f}}}));
  ExpectNear(ScoresOf(first.SerializeAsString() + second.SerializeAsString()), {0.994779874});
}

TEST_F(MalformedTest, MergesRowsSentInParts) {
  v1::ScoreRequest first = Request("r4", PlainRows({0, 1}, {}));
  v1::ScoreRequest second = Request("r4", PlainRows({}, {2}, {3}));
  ExpectNear(ScoresOf(first.SerializeAsString() + second.SerializeAsString()), {0.994779874});
}

TEST_F(MalformedTest, RefusesUnknownOutputs) {
  for (const int output : {0, 6, 1000, -1}) {
    v1::ScoreRequest request = Request("r4", PlainRows({{{2, 3.0f}}}));
    request.add_outputs(static_cast<v1::Output>(output));
    ExpectBadField(server_->Score(request).status, "outputs");
  }
}

TEST_F(MalformedTest, UnknownMethodIsUnimplemented) {
  EXPECT_EQ(CallRaw(server_->channel(), "/widelane.v1.Scoring/Nothing", "").status.error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace widelane::test
