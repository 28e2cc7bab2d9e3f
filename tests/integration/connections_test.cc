// The life of connections: pings, and the age at which clients are asked to make a new one.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/expect.h"
#include "tests/support/held_server.h"
#include "tests/support/rows.h"
#include "tests/support/score_stream.h"

namespace widelane::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A client that pings as often as it can, whether it has calls or not.
std::shared_ptr<grpc::Channel> PingingChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 200);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// Whether the channel's connection ends within the time. A server that wants it to end says GOAWAY.
bool LosesConnection(grpc::Channel& channel, milliseconds time) {
  return channel.WaitForStateChange(GRPC_CHANNEL_READY, std::chrono::system_clock::now() + time);
}

// The same pings to two servers, for as long as it takes one of them to have enough. gRPC's clients ping once a second
// at most, and its servers send away who has pinged too often three times.
TEST(PingTest, WhoPingsTooOftenIsSentAwayAndMayComeBackAndOthersStay) {
  HeldServer strict(OneModel(), [](ServerConfig& config) { config.front.min_ping_interval = seconds(60); });
  HeldServer lenient(OneModel(), [](ServerConfig& config) { config.front.min_ping_interval = milliseconds(100); });
  const auto sent_away = PingingChannel(strict->server().grpc_address());
  const auto idle = PingingChannel(lenient->server().grpc_address());
  const auto busy = PingingChannel(lenient->server().grpc_address());
  const auto sent_away_stub = v1::Scoring::NewStub(sent_away);
  const auto busy_stub = v1::Scoring::NewStub(busy);
  ExpectOk(Score(*sent_away_stub, Id1Request({1})).status);
  ExpectOk(Score(*busy_stub, Id1Request({1})).status);
  ExpectOk(Score(*v1::Scoring::NewStub(idle), Id1Request({1})).status);
  strict.device().Block();
  lenient.device().Block();
  PendingCalls calls;
  const size_t cut = calls.Send(*sent_away_stub, Id1Request({2}));
  const size_t long_one = calls.Send(*busy_stub, Id1Request({3}));

  EXPECT_TRUE(LosesConnection(*sent_away, seconds(20)));
  EXPECT_FALSE(LosesConnection(*idle, milliseconds(500)));
  EXPECT_FALSE(LosesConnection(*busy, milliseconds(0)));
  strict.device().Unblock();
  lenient.device().Unblock();
  ExpectNear(calls.Wait(long_one).reply.scores(), {3}, 0);
  const grpc::Status& status = calls.Wait(cut).status;
  EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::UNAVAILABLE)
      << status.error_code() << " " << status.error_message();
  const ScoreResult next = Score(*sent_away_stub, Id1Request({4}));
  ExpectOk(next.status);
  ExpectNear(next.reply.scores(), {4}, 0);
}

void Short(ServerConfig& config) {
  config.front.max_connection_age = milliseconds(200);
  config.front.max_connection_age_grace = seconds(10);
}

TEST(ConnectionAgeTest, ConnectionsMoveAndNoCallFails) {
  TestServer server(OneModel(), Short);
  std::atomic<bool> stop{false};
  std::atomic<int> moved{0};
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      const auto channel = Connect(server.server().grpc_address());
      const auto stub = v1::Scoring::NewStub(channel);
      bool ready = false;
      for (int i = 0; !stop; ++i) {
        const auto value = static_cast<float>(100'000 * client + i);
        const ScoreResult result = Score(*stub, Id1Request({value}));
        ASSERT_TRUE(result.status.ok()) << result.status.error_code() << " " << result.status.error_message();
        ASSERT_EQ(result.reply.scores(0), value);
        // Between two calls a connection that has been told to go is idle.
        const bool now = channel->GetState(false) == GRPC_CHANNEL_READY;
        if (ready && !now) ++moved;
        ready = now;
      }
    });
  }
  EXPECT_TRUE(Eventually([&] { return moved >= 8; }));
  stop = true;
  for (std::thread& client : clients) client.join();
}

TEST(ConnectionAgeTest, AStreamEndsInOrderWithAllItsAnswers) {
  HeldServer server(OneModel(), Short);
  server.device().Block();
  ScoreStream stream(server.stub());
  for (uint64_t id = 1; id <= 10; ++id) ASSERT_TRUE(stream.Send(id, Id1Request({static_cast<float>(id)})));
  ASSERT_TRUE(server.WaitForInFlight(10));
  std::this_thread::sleep_for(milliseconds(400));
  server.device().Unblock();
  uint64_t replies = 0;
  for (v1::StreamReply reply; stream.Receive(reply); ++replies) {
    EXPECT_EQ(reply.reply().scores(0), static_cast<float>(reply.id()));
  }
  EXPECT_EQ(replies, 10u);
  ExpectError(stream.Finish(), grpc::StatusCode::UNAVAILABLE, {"new one"});
}

}  // namespace
}  // namespace widelane::test
