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

const TestServer::Models kId1 = {{"id1", Id1()}};

// A client that pings so often, whether it has calls or not.
std::shared_ptr<grpc::Channel> PingingChannel(const std::string& address, milliseconds interval) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(interval.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt("grpc.http2.min_time_between_pings_ms", static_cast<int>(interval.count()));
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// Whether the channel's connection ends within the time. A server that wants it to end says GOAWAY.
bool LosesConnection(grpc::Channel& channel, milliseconds time) {
  return channel.WaitForStateChange(GRPC_CHANNEL_READY, std::chrono::system_clock::now() + time);
}

TEST(PingTest, AtAPermittedIntervalOneConnectionLasts) {
  HeldServer server(kId1, [](ServerConfig& config) { config.front.min_ping_interval = milliseconds(100); });
  const auto channel = PingingChannel(server->server().grpc_address(), milliseconds(250));
  const auto stub = v1::Scoring::NewStub(channel);
  ExpectOk(Score(*stub, Id1Request({1})).status);
  // First with nothing to do, then with a call that takes as long.
  EXPECT_FALSE(LosesConnection(*channel, milliseconds(1500)));
  PendingCalls calls;
  server.device().Block();
  const size_t call = calls.Send(*stub, Id1Request({2}));
  EXPECT_FALSE(LosesConnection(*channel, milliseconds(1500)));
  server.device().Unblock();
  ExpectNear(calls.Wait(call).reply.scores(), {2}, 0);
}

TEST(PingTest, WhoPingsTooOftenIsSentAwayAndMayComeBack) {
  HeldServer server(kId1, [](ServerConfig& config) { config.front.min_ping_interval = seconds(60); });
  const auto channel = PingingChannel(server->server().grpc_address(), milliseconds(50));
  const auto stub = v1::Scoring::NewStub(channel);
  ExpectOk(Score(*stub, Id1Request({1})).status);
  PendingCalls calls;
  server.device().Block();
  const size_t running = calls.Send(*stub, Id1Request({2}));
  EXPECT_TRUE(LosesConnection(*channel, seconds(20)));
  server.device().Unblock();
  const grpc::Status& status = calls.Wait(running).status;
  EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::UNAVAILABLE)
      << status.error_code() << " " << status.error_message();
  const ScoreResult next = Score(*stub, Id1Request({3}));
  ExpectOk(next.status);
  ExpectNear(next.reply.scores(), {3}, 0);
  EXPECT_TRUE(server.WaitForInFlight(0));
}

void Short(ServerConfig& config) {
  config.front.max_connection_age = milliseconds(200);
  config.front.max_connection_age_grace = seconds(10);
}

TEST(ConnectionAgeTest, ConnectionsMoveAndNoCallFails) {
  TestServer server(kId1, Short);
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
  HeldServer server(kId1, Short);
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
