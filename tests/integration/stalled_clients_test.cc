// Clients that never read what they asked for, and servers that cannot stop: neither lasts for ever.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <thread>

#include "tests/support/expect.h"
#include "tests/support/generic_stream.h"
#include "tests/support/http.h"
#include "tests/support/rows.h"
#include "tests/support/score_stream.h"
#include "tests/support/server_process.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kWideRows = 16384;

TestServer::Models Models() {
  return {{"id1", Id1()}, {"wide", MakeModel({.features = 1, .outputs = 64, .weights = std::vector<float>(64, 1.0F)})}};
}

v1::ScoreRequest EmptyRows(const std::string& model, size_t rows) {
  v1::Rows message;
  message.mutable_row_lengths()->set_type(v1::U16);
  message.mutable_row_lengths()->set_data(std::string(2 * rows, '\0'));
  message.mutable_indices()->set_type(v1::U32);
  return Request(model, message);
}

// Its reply has 8 MiB, more than a connection holds of what nobody reads.
v1::ScoreRequest LargeReply() {
  v1::ScoreRequest request = EmptyRows("wide", kWideRows);
  request.add_outputs(v1::RAW);
  return request;
}

double MetricNow(const TestServer& server, const std::string& name) {
  return MetricValue(server.Metrics(), name).value_or(-1);
}

class StalledClientTest : public ::testing::Test {
 protected:
  static void Configure(ServerConfig& config) { config.drain.timeout = milliseconds(500); }

  void ExpectToStop() {
    const auto begin = std::chrono::steady_clock::now();
    server_.server().Shutdown();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
  }

  TestServer server_{Models(), Configure};
};

// Called as if it were a stream, so that the reply is left where it is until it is asked for.
TEST_F(StalledClientTest, AReplyThatNobodyTakesHoldsUpNeitherOthersNorAStop) {
  GenericStream<v1::ScoreRequest, v1::ScoreReply> call(Connect(server_.server().grpc_address()), kScoreMethod);
  ASSERT_TRUE(call.Write(LargeReply()));
  ASSERT_TRUE(Eventually([&] { return MetricNow(server_, "widelane_rows_total") == kWideRows; }));
  for (int i = 0; i < 100; ++i) ExpectNear(server_.Scores(Id1Request({5})), {5}, 0);
  EXPECT_TRUE(Eventually([&] { return MetricNow(server_, "widelane_requests_in_flight") == 1; }));
  ExpectToStop();
}

TEST_F(StalledClientTest, AStreamThatNobodyReadsHoldsUpNeitherOthersNorAStop) {
  const auto stub = v1::Scoring::NewStub(Connect(server_.server().grpc_address()));
  ScoreStream stream(*stub);
  const v1::ScoreRequest request = LargeReply();
  for (uint64_t id = 0; id < 3; ++id) ASSERT_TRUE(stream.Send(id, request));
  ASSERT_TRUE(Eventually([&] { return MetricNow(server_, "widelane_requests_in_flight") > 0; }));
  for (int i = 0; i < 100; ++i) ExpectNear(server_.Scores(Id1Request({5})), {5}, 0);
  ExpectToStop();
}

// Large messages from more clients than there is memory for: some may be refused, and then it is over.
TEST(GrpcMemoryTest, MoreThanItHoldsIsRefusedOrSlow) {
  constexpr size_t kMessage = 4 << 20;
  constexpr int kClients = kSanitized ? 8 : 16;
  TestServer server(Models(), [](ServerConfig& config) {
    config.limits.max_message_bytes = kMessage + 1000;
    config.front.grpc_memory_bytes = kMessage + 1000;
  });
  const v1::ScoreRequest request = EmptyRows("id1", kMessage / 2);
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&] {
      const auto stub = v1::Scoring::NewStub(Connect(server.server().grpc_address()));
      for (int i = 0; i < 2; ++i) {
        const grpc::Status status = Score(*stub, request, seconds(10)).status;
        EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ||
                    status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                    status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED)
            << status.error_code() << " " << status.error_message();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(Eventually([&] { return MetricNow(server, "widelane_requests_in_flight") == 0; }));
  const auto stub = v1::Scoring::NewStub(Connect(server.server().grpc_address()));
  EXPECT_TRUE(Eventually([&] { return Score(*stub, Id1Request({1})).status.ok(); }));
}

// A device that hangs, which no stop can wait for.
TEST(WatchdogTest, AStopThatHangsEndsWithAnError) {
  TempDir files;
  const std::string model = "id1=" + files.Write("id1.safetensors", *Id1());
  ServerProcess server({"--model", model, "--drain-delay-ms", "0", "--drain-timeout-ms", "0"}, {},
                       kHangingServerProgram);
  ASSERT_TRUE(server.WaitForPorts());
  ASSERT_TRUE(server.process().WaitForLine(kHangsFromNowOn, kPatience));
  EXPECT_EQ(Score(server.stub(), Id1Request({1}), milliseconds(200)).status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  server.process().Signal(SIGTERM);
  ASSERT_TRUE(server.process().WaitForLine("got SIGTERM", kPatience));
  server.process().Signal(SIGINT);
  EXPECT_EQ(server.process().WaitForExit(kPatience), 1) << server.process().all();
  EXPECT_NE(server.process().all().find("could not stop in time"), std::string::npos) << server.process().all();
}

}  // namespace
}  // namespace widelane::test
