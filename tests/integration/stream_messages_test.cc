// What of a ScoreStream travels in one message: many requests, many replies, and what is no message.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/expect.h"
#include "tests/support/generic_stream.h"
#include "tests/support/held_server.h"
#include "tests/support/http.h"
#include "tests/support/rows.h"
#include "tests/support/score_stream.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

using grpc::StatusCode;

// One request for each id, whose score is the id.
v1::StreamRequests Message(uint64_t first_id, uint64_t last_id) {
  v1::StreamRequests message;
  for (uint64_t id = first_id; id <= last_id; ++id) Add(message, id, Id1Request({static_cast<float>(id)}));
  return message;
}

std::vector<uint64_t> Ids(uint64_t first, uint64_t last) {
  std::vector<uint64_t> ids;
  for (uint64_t id = first; id <= last; ++id) ids.push_back(id);
  return ids;
}

// Reads up to `most` replies, which have the right scores; their ids, sorted.
std::vector<uint64_t> ReceiveIds(ScoreStream& stream, size_t most = SIZE_MAX) {
  std::vector<uint64_t> ids;
  v1::StreamReply reply;
  while (ids.size() < most && stream.Receive(reply)) {
    ids.push_back(reply.id());
    EXPECT_EQ(reply.error().message(), "");
    if (!reply.has_reply()) continue;
    EXPECT_EQ(reply.reply().scores(0), static_cast<float>(reply.id()));
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(StreamMessagesTest, RequestsThatComeTogetherAreAnsweredTogether) {
  // Each is scored by the thread that receives it. There is only one: another, told that the replies of the round
  // before are written, would send those there are.
  TestServer server({{"id1", Id1()}}, [](ServerConfig& config) {
    config.engine.route = Route::kInline;
    config.front.completion_queues = 1;
    config.front.threads_per_queue = 1;
  });
  ScoreStream stream(server.stub());
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(stream.Send(Message(1, 50)));
    v1::StreamReplies replies;
    ASSERT_TRUE(stream.Receive(replies));
    ASSERT_EQ(replies.replies_size(), 50);
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(replies.replies(i).id(), static_cast<uint64_t>(i + 1));
      EXPECT_EQ(replies.replies(i).reply().scores(0), static_cast<float>(i + 1));
    }
  }
}

TEST(StreamMessagesTest, AMessageMayHaveNoRequests) {
  TestServer server({{"id1", Id1()}});
  ScoreStream stream(server.stub());
  EXPECT_TRUE(stream.Send(v1::StreamRequests()));
  EXPECT_TRUE(stream.Send(Message(1, 1)));
  EXPECT_TRUE(stream.Send(v1::StreamRequests()));
  stream.Close();
  EXPECT_EQ(ReceiveIds(stream), Ids(1, 1));
  ExpectOk(stream.Finish());
}

TEST(StreamMessagesTest, LargeAndSmallRequestsShareAMessage) {
  TestServer server({{"id1", Id1()}});
  ScoreStream stream(server.stub());
  v1::StreamRequests message;
  for (uint64_t id = 1; id <= 40; ++id) {
    // Some are large enough for batches of their own.
    Add(message, id, Id1Request(std::vector<float>(id % 10 == 0 ? 5000 : 1, static_cast<float>(id))));
  }
  EXPECT_TRUE(stream.Send(message));
  stream.Close();
  uint64_t ids = 0;
  for (v1::StreamReply reply; stream.Receive(reply); ++ids) {
    ASSERT_EQ(reply.reply().scores_size(), reply.id() % 10 == 0 ? 5000 : 1) << reply.error().message();
    for (const float score : reply.reply().scores()) ASSERT_EQ(score, static_cast<float>(reply.id()));
  }
  EXPECT_EQ(ids, 40u);
  ExpectOk(stream.Finish());
}

// Messages as bytes.
class StreamBytesTest : public ::testing::Test {
 protected:
  using Stream = GenericStream<grpc::ByteBuffer, v1::StreamReplies>;

  // In slices of `slice` bytes.
  void Send(const std::string& message, size_t slice = SIZE_MAX) {
    std::vector<grpc::Slice> slices;
    for (size_t at = 0; at < message.size(); at += std::min(slice, message.size() - at)) {
      slices.emplace_back(message.substr(at, slice));
    }
    EXPECT_TRUE(stream_.Write(grpc::ByteBuffer(slices.data(), slices.size())));
  }
  // All replies until the stream ends or there are as many.
  std::vector<v1::StreamReply> Receive(size_t most = SIZE_MAX) {
    std::vector<v1::StreamReply> replies;
    v1::StreamReplies message;
    while (replies.size() < most && stream_.Read(message, kCallLimit) == Stream::Outcome::kMessage) {
      replies.insert(replies.end(), message.replies().begin(), message.replies().end());
    }
    return replies;
  }

  TestServer server_{{{"id1", Id1()}}};
  Stream stream_{server_.channel(), "/widelane.v1.Scoring/ScoreStream"};
};

TEST_F(StreamBytesTest, MessagesOneBehindTheOtherAreOne) {
  const std::string both = Message(1, 3).SerializeAsString() + Message(4, 5).SerializeAsString();
  for (const size_t slice : {SIZE_MAX, size_t{7}}) {
    Send(both, slice);
    const std::vector<v1::StreamReply> replies = Receive(5);
    ASSERT_EQ(replies.size(), 5u);
    for (const v1::StreamReply& reply : replies) EXPECT_EQ(reply.reply().scores(0), static_cast<float>(reply.id()));
  }
}

TEST_F(StreamBytesTest, ABadRequestHarmsNoneOfTheOthers) {
  v1::StreamRequests message = Message(1, 2);
  Add(message, 3, Request("stranger", PlainRows({WireRow{}})));
  Add(message, 4, Request("id1", PlainRows({{{1, 1.0F}}})));  // no such feature
  std::string bytes = message.SerializeAsString();
  bytes += std::string("\x0a\x05\x08\x05\x12\x7f\x01", 7);  // id 5, and a request that is cut short
  bytes += std::string("\x0a\x00", 2);                      // nothing, not even an id
  bytes += Message(6, 7).SerializeAsString();
  Send(bytes);
  std::vector<v1::StreamReply> replies = Receive(8);
  ASSERT_EQ(replies.size(), 8u);
  std::sort(replies.begin(), replies.end(), [](const auto& a, const auto& b) { return a.id() < b.id(); });
  for (size_t id = 0; id < 8; ++id) ASSERT_EQ(replies[id].id(), id);
  for (const size_t good : {1, 2, 6, 7}) EXPECT_EQ(replies[good].reply().scores(0), static_cast<float>(good));
  for (const size_t bad : {0, 4, 5}) EXPECT_EQ(replies[bad].error().code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(replies[3].error().code(), StatusCode::NOT_FOUND);
  Send(std::string());
  Send(Message(9, 9).SerializeAsString());
  EXPECT_EQ(Receive(1).size(), 1u);
}

TEST_F(StreamBytesTest, WhatIsBeforeTheCutIsAnsweredThenTheStreamEnds) {
  const std::string message = Message(1, 3).SerializeAsString();
  Send(message.substr(0, message.size() - 3));
  const std::vector<v1::StreamReply> replies = Receive();
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_EQ(replies[0].reply().scores(0), 1.0F);
  EXPECT_EQ(replies[1].reply().scores(0), 2.0F);
  ExpectError(stream_.Finish(), StatusCode::INVALID_ARGUMENT, {"StreamRequests"});
}

TEST(StreamMessagesTest, AMessageTheServerHasNoRoomForIsRefusedAsAWhole) {
  TestServer server({{"id1", Id1()}}, [](ServerConfig& config) { config.limits.max_queued_bytes = 4096; });
  ScoreStream stream(server.stub());
  for (int round = 0; round < 2; ++round) {
    v1::StreamRequests message = Message(1, 3);
    Add(message, 4, Id1Request(std::vector<float>(2000, 4.0F)));
    ASSERT_TRUE(stream.Send(message));
    v1::StreamReply reply;
    for (uint64_t id = 1; id <= 4; ++id) {
      ASSERT_TRUE(stream.Receive(reply));
      EXPECT_EQ(reply.id(), id);
      EXPECT_EQ(reply.error().code(), StatusCode::RESOURCE_EXHAUSTED);
    }
    ASSERT_TRUE(stream.Send(Message(5, 6)));
    EXPECT_EQ(ReceiveIds(stream, 2), Ids(5, 6));
  }
}

TEST(StreamMessagesTest, RepliesThatWaitGoTogetherButNotTooMany) {
  constexpr size_t kMostMessage = 256 << 10;
  TestServer server({{"id1", Id1()}}, [](ServerConfig& config) { config.front.stream_requests = 1000; });
  const auto channel = Connect(server.server().grpc_address());
  const auto stub = v1::Scoring::NewStub(channel);
  ScoreStream stream(*stub);
  v1::StreamRequests requests;
  for (uint64_t id = 1; id <= 500; ++id) Add(requests, id, Id1Request(std::vector<float>(2000, 1.0F)));
  ASSERT_TRUE(stream.Send(requests));
  stream.Close();
  // The first are on their way, and the others wait for somebody to take these.
  ASSERT_TRUE(Eventually([&] { return MetricValue(server.Metrics(), "widelane_rows_total") == 500 * 2000.0; }));
  int replies = 0;
  int messages = 0;
  for (v1::StreamReplies message; stream.Receive(message); ++messages) {
    replies += message.replies_size();
    EXPECT_LE(message.ByteSizeLong(), kMostMessage);
  }
  ExpectOk(stream.Finish());
  EXPECT_EQ(replies, 500);
  EXPECT_LT(messages, 250);
}

void AtMostFour(ServerConfig& config) { config.front.stream_requests = 4; }

TEST(StreamMessagesTest, TakesNoMoreOfAMessageThanMayBeUnanswered) {
  HeldServer server({{"id1", Id1()}}, AtMostFour);
  server.device().Block();
  ScoreStream stream(server.stub());
  ASSERT_TRUE(stream.Send(Message(1, 30)));
  ASSERT_TRUE(stream.Send(Message(31, 50)));
  stream.Close();
  ASSERT_TRUE(server.WaitForInFlight(4));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(server.InFlight(), 4);
  server.device().Unblock();
  EXPECT_EQ(ReceiveIds(stream), Ids(1, 50));
  ExpectOk(stream.Finish());
  EXPECT_TRUE(server.WaitForInFlight(0));
}

TEST(StreamMessagesTest, AServerThatStopsAnswersTheRestOfAMessage) {
  HeldServer server({{"id1", Id1()}}, AtMostFour);
  server.device().Block();
  ScoreStream stream(server.stub());
  ASSERT_TRUE(stream.Send(Message(1, 30)));
  ASSERT_TRUE(server.WaitForInFlight(4));
  std::thread stopping([&] { server->server().Shutdown(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  server.device().Unblock();
  EXPECT_EQ(ReceiveIds(stream), Ids(1, 30));
  ExpectError(stream.Finish(), StatusCode::UNAVAILABLE);
  stopping.join();
}

TEST(StreamMessagesTest, ACancelledStreamForgetsTheRestOfAMessage) {
  HeldServer server({{"id1", Id1()}}, AtMostFour);
  server.device().Block();
  ScoreStream stream(server.stub());
  ASSERT_TRUE(stream.Send(Message(1, 30)));
  ASSERT_TRUE(server.WaitForInFlight(4));
  stream.Cancel();
  // All but what is being scored.
  EXPECT_TRUE(Eventually([&] { return server.InFlight() <= 1; }));
  server.device().Unblock();
  EXPECT_TRUE(Eventually([&] { return server.Metric("widelane_streams_open") == 0; }));
  EXPECT_EQ(server.InFlight(), 0);
  EXPECT_EQ(server.Ended("CANCELLED"), 4);
  ScoreStream other(server.stub());
  ASSERT_TRUE(other.Send(Message(1, 30)));
  EXPECT_EQ(ReceiveIds(other, 30), Ids(1, 30));
}

}  // namespace
}  // namespace widelane::test
