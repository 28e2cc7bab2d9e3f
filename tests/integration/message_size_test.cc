// Messages of megabytes, both ways, and the limit on them.

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/check.h"
#include "tests/support/expect.h"
#include "tests/support/rows.h"
#include "tests/support/score_stream.h"
#include "tests/support/test_server.h"
#include "tests/support/ways.h"
#include "widelane/client/client.h"

namespace widelane::test {
namespace {

constexpr size_t kEntries = 400'000;
constexpr size_t kEmptyRows = 1'100'000;

// One row of 400,000 entries of 8 + 4 bytes: 1 * 2^-19 for each.
v1::ScoreRequest LargeRequest() {
  v1::Rows rows;
  const std::vector<int64_t> indptr = {0, kEntries};
  const std::vector<int64_t> indices(kEntries, 0);
  const std::vector<float> values(kEntries, 0x1p-19f);
  rows.mutable_indptr()->set_type(v1::I64);
  rows.mutable_indptr()->set_data(indptr.data(), indptr.size() * sizeof(int64_t));
  rows.mutable_indices()->set_type(v1::I64);
  rows.mutable_indices()->set_data(indices.data(), indices.size() * sizeof(int64_t));
  rows.mutable_values()->set_type(v1::F32);
  rows.mutable_values()->set_data(values.data(), values.size() * sizeof(float));
  return Request("id1", rows);
}

v1::ScoreRequest LargeReplyRequest() {
  v1::Rows rows;
  const std::vector<int64_t> indptr(kEmptyRows + 1, 0);
  rows.mutable_indptr()->set_type(v1::I64);
  rows.mutable_indptr()->set_data(indptr.data(), indptr.size() * sizeof(int64_t));
  rows.mutable_indices()->set_type(v1::U32);
  return Request("r4", rows);
}

// `call` on this many threads at once.
template <typename Call>
void AtOnce(int threads, const Call& call) {
  std::vector<std::thread> callers;
  for (int i = 0; i < threads; ++i) callers.emplace_back(call);
  for (std::thread& caller : callers) caller.join();
}

class MessageSizeTest : public ::testing::Test {
 protected:
  // With the limits and batches a server has unless told otherwise.
  static void SetUpTestSuite() {
    server_ = new TestServer({{"id1", Id1()}, {"r4", R4()}}, [](ServerConfig& config) {
      config.engine.slab = SlabOptions();
      config.engine.slabs = EngineOptions().slabs;
    });
  }
  static void TearDownTestSuite() { delete server_; }
  static TestServer* server_;
};
TestServer* MessageSizeTest::server_ = nullptr;

TEST_F(MessageSizeTest, TakesARequestOfFiveMegabytes) {
  const v1::ScoreRequest request = LargeRequest();
  EXPECT_GT(request.ByteSizeLong(), 4'800'000u);
  for (const Way way : kWays) {
    const ScoreResult result = Score(way, server_->stub(), request);
    ExpectOk(result.status);
    ExpectNear(result.reply.scores(), {kEntries * 0x1p-19});
  }
}

TEST_F(MessageSizeTest, GivesAReplyOfFourMegabytes) {
  for (const Way way : kWays) {
    const ScoreResult result = Score(way, server_->stub(), LargeReplyRequest());
    ExpectOk(result.status);
    EXPECT_GT(result.reply.ByteSizeLong(), 4'194'304u);
    ASSERT_EQ(static_cast<size_t>(result.reply.scores_size()), kEmptyRows);
    for (const float score : result.reply.scores()) ASSERT_NEAR(score, 0.320821301, kTolerance);
  }
}

TEST_F(MessageSizeTest, TheClientLibraryNeedsNoSettings) {
  const auto client = Must(client::Client::Connect(server_->server().grpc_address(), {}));
  const auto stream = client->OpenStream({});
  client::ScoreRequest large;
  const std::vector<int64_t> large_indptr = {0, kEntries};
  const std::vector<int64_t> indices(kEntries, 0);
  const std::vector<float> values(kEntries, 0x1p-19f);
  large.model = "id1";
  large.rows = {std::span(large_indptr), std::span(indices), std::span(values), 0};
  ExpectNear(Must(client->Score(large)).scores, {kEntries * 0x1p-19});
  ExpectNear(Must(stream->Score(large)).scores, {kEntries * 0x1p-19});

  client::ScoreRequest empty_rows;
  const std::vector<int64_t> indptr(kEmptyRows + 1, 0);
  empty_rows.model = "r4";
  empty_rows.rows.indptr = std::span(indptr);
  for (const auto& reply : {Must(client->Score(empty_rows)), Must(stream->Score(empty_rows))}) {
    ASSERT_EQ(reply.scores.size(), kEmptyRows);
    for (const float score : reply.scores) ASSERT_NEAR(score, 0.320821301, kTolerance);
  }
}

TEST_F(MessageSizeTest, TakesFortyLargeRequestsAtOnce) {
  const v1::ScoreRequest request = LargeRequest();
  AtOnce(40, [&] {
    const ScoreResult result = server_->Score(request);
    ExpectOk(result.status);
    ExpectNear(result.reply.scores(), {kEntries * 0x1p-19});
  });
}

TEST_F(MessageSizeTest, GivesLargeRepliesToSeveralAtOnce) {
  const v1::ScoreRequest request = LargeReplyRequest();
  AtOnce(kSanitized ? 4 : 10, [&] {
    const ScoreResult result = server_->Score(request);
    ExpectOk(result.status);
    EXPECT_EQ(static_cast<size_t>(result.reply.scores_size()), kEmptyRows);
  });
}

constexpr size_t kLimit = 1 << 20;

// A good request of exactly this many bytes: field 99, which nobody knows, fills it up.
std::string RequestOf(size_t bytes) {
  std::string message = Request("r4", PlainRows({{{2, 3.0f}}})).SerializeAsString();
  const size_t filling = bytes - message.size() - 2 - 3;  // tag and length, three bytes for any from 2^14 to 2^21 - 1
  message += "\x9a\x06";
  message += static_cast<char>(filling | 0x80);
  message += static_cast<char>(filling >> 7 | 0x80);
  message += static_cast<char>(filling >> 14);
  message.append(filling, 'x');
  Require(message.size() == bytes, "a request of the size asked for");
  return message;
}

TEST(MessageLimitTest, RefusesOneByteMoreAndTheConnectionGoesOn) {
  TestServer server({{"r4", R4()}}, [](ServerConfig& config) { config.limits.max_message_bytes = kLimit; });
  ExpectOk(CallRaw(server.channel(), kScoreMethod, RequestOf(kLimit)).status);
  ExpectError(CallRaw(server.channel(), kScoreMethod, RequestOf(kLimit + 1)).status,
              grpc::StatusCode::RESOURCE_EXHAUSTED, {std::to_string(kLimit)});
  ExpectOk(CallRaw(server.channel(), kScoreMethod, RequestOf(kLimit)).status);

  const std::string too_large = RequestOf(2 * kLimit - 1);
  AtOnce(40, [&] {
    ExpectError(CallRaw(server.channel(), kScoreMethod, too_large).status, grpc::StatusCode::RESOURCE_EXHAUSTED);
  });
  EXPECT_EQ(server.channel()->GetState(false), GRPC_CHANNEL_READY);
  ExpectNear(server.Scores(Request("r4", PlainRows({{{2, 3.0f}}}))), {0.994779874});
}

// A little over the limit is an answer; far over it gRPC ends the stream.
TEST(MessageLimitTest, AStreamsConnectionGoesOnAfterAMessageThatIsTooLarge) {
  TestServer server({{"id1", Id1()}}, [](ServerConfig& config) { config.limits.max_message_bytes = kLimit; });
  const auto of_bytes = [](size_t bytes) {
    v1::ScoreRequest request = Id1Request({1});
    request.set_version(std::string(bytes, '1'));
    return request;
  };
  ScoreStream stream(server.stub());
  ASSERT_TRUE(stream.Send(1, of_bytes(kLimit)));
  v1::StreamReply reply;
  ASSERT_TRUE(stream.Receive(reply));
  EXPECT_EQ(reply.id(), 1u);
  EXPECT_EQ(reply.error().code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(reply.error().message().find("max-message-bytes"), std::string::npos) << reply.error().message();
  ASSERT_TRUE(stream.Send(2, Id1Request({2})));
  ASSERT_TRUE(stream.Receive(reply));
  ASSERT_EQ(reply.reply().scores_size(), 1);
  EXPECT_EQ(reply.reply().scores(0), 2.0F);
  stream.Send(3, of_bytes(2 * kLimit));
  EXPECT_FALSE(stream.Receive(reply));
  ExpectError(stream.Finish(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(server.channel()->GetState(false), GRPC_CHANNEL_READY);
  for (const Way way : kWays) ExpectOk(Score(way, server.stub(), Id1Request({3})).status);
}

TEST(MessageLimitTest, TheClientLibraryFailsBeforeItSendsNamingLimitAndOption) {
  TestServer server({{"id1", Id1()}}, [](ServerConfig& config) { config.limits.max_message_bytes = kLimit; });
  const auto client = Must(client::Client::Connect(server.server().grpc_address(), {}));
  client::Rows rows;
  for (size_t i = 0; i < kLimit / 2; ++i) rows.AddEntry(0, 0.5f);
  rows.EndRow();
  client::ScoreRequest request;
  request.model = "id1";
  request.rows = rows;
  const auto stream = client->OpenStream({});
  for (const absl::Status& status : {client->Score(request).status(), stream->Score(request).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_NE(std::string(status.message()).find(std::to_string(kLimit)), std::string::npos) << status;
    EXPECT_NE(std::string(status.message()).find("max-message-bytes"), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace widelane::test
