// ScoreStream: many requests on one call, answered by their ids; how it ends, and that it harms nobody.

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "google/rpc/error_details.pb.h"
#include "tests/support/check.h"
#include "tests/support/expect.h"
#include "tests/support/fake_device.h"
#include "tests/support/http.h"
#include "tests/support/rows.h"
#include "tests/support/score_stream.h"
#include "tests/support/test_server.h"

namespace widelane::test {
namespace {

using grpc::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;

double Metric(const TestServer& server, const std::string& name, const std::vector<std::string>& labels = {}) {
  return MetricValue(server.Metrics(), name, labels).value_or(-1);
}

double Answered(const TestServer& server, const std::string& code) {
  return Metric(server, "widelane_requests_total", {"method=\"ScoreStream\"", "code=\"" + code + "\""});
}

TEST(StreamTest, AnswersManyRequestsByTheirIds) {
  constexpr uint64_t kRequests = kSanitized ? 300 : 3000;
  TestServer server({{"id1", Id1()}});
  ScoreStream stream(server.stub());
  std::thread writer([&] {
    for (uint64_t id = 1; id <= kRequests; ++id) {
      // Some are large enough for a batch of their own.
      const size_t rows = id % 100 == 0 ? 5000 : 1 + id % 3;
      EXPECT_TRUE(stream.Send(id, Id1Request(std::vector<float>(rows, static_cast<float>(id)))));
    }
    stream.Close();
  });
  std::set<uint64_t> seen;
  v1::StreamReply reply;
  while (stream.Receive(reply)) {
    EXPECT_TRUE(seen.insert(reply.id()).second) << reply.id();
    ASSERT_TRUE(reply.has_reply()) << reply.error().message();
    ASSERT_EQ(reply.reply().scores_size(), reply.id() % 100 == 0 ? 5000 : 1 + static_cast<int>(reply.id() % 3));
    for (const float score : reply.reply().scores()) ASSERT_EQ(score, static_cast<float>(reply.id()));
  }
  writer.join();
  ExpectOk(stream.Finish());
  EXPECT_EQ(seen.size(), kRequests);
  EXPECT_TRUE(Eventually([&] { return Metric(server, "widelane_streams_open") == 0; }));
  EXPECT_EQ(Answered(server, "OK"), static_cast<double>(kRequests));
  EXPECT_EQ(Metric(server, "widelane_requests_in_flight"), 0);
}

TEST(StreamTest, ManyStreamsAtOnce) {
  constexpr int kStreams = 8;
  constexpr uint64_t kRequests = kSanitized ? 50 : 500;
  TestServer server({{"id1", Id1()}});
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kStreams; ++caller) {
    callers.emplace_back([&, caller] {
      ScoreStream stream(server.stub());
      std::thread writer([&] {
        for (uint64_t id = 0; id < kRequests; ++id) {
          stream.Send(id, Id1Request({static_cast<float>(id) + 1000.0F * static_cast<float>(caller)}));
        }
        stream.Close();
      });
      uint64_t replies = 0;
      for (v1::StreamReply reply; stream.Receive(reply); ++replies) {
        EXPECT_EQ(reply.reply().scores(0), static_cast<float>(reply.id()) + 1000.0F * static_cast<float>(caller));
      }
      writer.join();
      ExpectOk(stream.Finish());
      EXPECT_EQ(replies, kRequests);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(StreamTest, NothingSentNothingAnswered) {
  TestServer server({{"id1", Id1()}});
  ScoreStream stream(server.stub());
  stream.Close();
  v1::StreamReply reply;
  EXPECT_FALSE(stream.Receive(reply));
  ExpectOk(stream.Finish());
}

TEST(StreamTest, AnErrorIsTheAnswerOfItsRequestAlone) {
  TestServer server({{"id1", Id1()}});
  ScoreStream stream(server.stub());
  v1::ScoreRequest unknown_output = Id1Request({1});
  unknown_output.add_outputs(static_cast<v1::Output>(9));
  EXPECT_TRUE(stream.Send(1, Request("stranger", PlainRows({WireRow{}}))));
  EXPECT_TRUE(stream.Send(2, Request("id1", PlainRows({{{1, 1.0F}}}))));
  EXPECT_TRUE(stream.Send(3, unknown_output));
  EXPECT_TRUE(stream.Send(4, Id1Request({4})));
  EXPECT_TRUE(stream.Send(0, Id1Request({5})));
  stream.Close();
  std::map<uint64_t, v1::StreamReply> replies;
  for (v1::StreamReply reply; stream.Receive(reply);) replies[reply.id()] = reply;
  ExpectOk(stream.Finish());
  ASSERT_EQ(replies.size(), 5u);
  EXPECT_EQ(replies[1].error().code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(replies[2].error().code(), StatusCode::INVALID_ARGUMENT);
  google::rpc::BadRequest bad;
  ASSERT_EQ(replies[2].error().details_size(), 1);
  ASSERT_TRUE(replies[2].error().details(0).UnpackTo(&bad));
  EXPECT_EQ(bad.field_violations(0).field(), "rows.indices[0]");
  EXPECT_EQ(replies[3].error().code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(replies[4].reply().scores(0), 4.0F);
  EXPECT_EQ(replies[0].reply().scores(0), 5.0F);
  EXPECT_TRUE(Eventually([&] { return Answered(server, "INVALID_ARGUMENT") == 2; }));
}

TEST(StreamTest, AStreamThatIsOldEndsInOrder) {
  TestServer server({{"id1", Id1()}}, [](ServerConfig& config) {
    config.front.max_connection_age = seconds(60);
    config.front.max_connection_age_grace = milliseconds(300);
  });
  ScoreStream stream(server.stub());
  EXPECT_TRUE(stream.Send(1, Id1Request({1})));
  v1::StreamReply reply;
  EXPECT_TRUE(stream.Receive(reply));
  EXPECT_FALSE(stream.Receive(reply));
  ExpectError(stream.Finish(), StatusCode::UNAVAILABLE, {"new one"});
}

// A reader who stalls is cut off, and meanwhile others go on.
TEST(StreamTest, AClientThatTakesNoRepliesIsCutAndHurtsNobody) {
  TestServer server({{"id1", Id1()}}, [](ServerConfig& config) {
    config.front.stream_requests = 8;
    config.front.stream_stall = milliseconds(500);
  });
  v1::ScoreRequest request = Id1Request(std::vector<float>(20000, 1.0F));
  request.add_outputs(v1::RAW);
  const std::shared_ptr<grpc::Channel> channel = Connect(server.server().grpc_address());
  const auto stub = v1::Scoring::NewStub(channel);
  ScoreStream stalled(*stub);
  std::thread writer([&] {
    for (uint64_t id = 1; id <= 1000 && stalled.Send(id, request); ++id) {
    }
  });
  ScoreStream other(server.stub());
  v1::StreamReply reply;
  uint64_t others = 0;
  const auto is_cut = [&] { return Metric(server, "widelane_refused_total", {"reason=\"stream-stall-ms\""}) == 1; };
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  while (!is_cut() && std::chrono::steady_clock::now() < limit) {
    ASSERT_TRUE(other.Send(++others, Id1Request({2})));
    ASSERT_TRUE(other.Receive(reply));
    ASSERT_EQ(reply.reply().scores(0), 2.0F);
  }
  EXPECT_TRUE(is_cut());
  EXPECT_GT(others, 0u);
  writer.join();
  while (stalled.Receive(reply)) {
  }
  ExpectError(stalled.Finish(), StatusCode::RESOURCE_EXHAUSTED, {"stream-stall-ms"});
  EXPECT_TRUE(Eventually([&] { return Metric(server, "widelane_streams_open") == 1; }));
  EXPECT_TRUE(Eventually([&] { return Metric(server, "widelane_requests_in_flight") == 0; }));
  ASSERT_TRUE(other.Send(0, Id1Request({3})));
  ASSERT_TRUE(other.Receive(reply));
  EXPECT_EQ(reply.reply().scores(0), 3.0F);
}

// Over a device that waits until told.
class HeldStreamTest : public ::testing::Test {
 protected:
  void Start(const TestServer::Configure& configure = {}) {
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(FakeDevice::Cpu(device_));
    server_ = std::make_unique<TestServer>(TestServer::Models{{"id1", Id1()}}, std::move(devices), configure);
    Require(server_->server().WaitUntilLoaded(seconds(60)), "models are loaded");
    stream_ = std::make_unique<ScoreStream>(server_->stub());
    device_->Block();
  }
  // Sends a request that is worked on until the device is let go: the first by the thread that receives it, another by
  // the engine's.
  void Hold(uint64_t id) {
    const uint64_t before = device_->batches();
    ASSERT_TRUE(stream_->Send(id, Id1Request({static_cast<float>(id)})));
    ASSERT_TRUE(device_->WaitForBatches(before + 1, kPatience));
  }
  double InFlight() const { return Metric(*server_, "widelane_requests_in_flight"); }
  ~HeldStreamTest() override { device_->Unblock(); }

  std::shared_ptr<FakeDeviceControl> device_ = std::make_shared<FakeDeviceControl>();
  std::unique_ptr<TestServer> server_;
  std::unique_ptr<ScoreStream> stream_;
};

TEST_F(HeldStreamTest, ATimeoutIsToldWhileOthersWait) {
  Start();
  Hold(1);
  Hold(2);
  ASSERT_TRUE(stream_->Send(3, Id1Request({3}), 50));
  v1::StreamReply reply;
  ASSERT_TRUE(stream_->Receive(reply));
  EXPECT_EQ(reply.id(), 3u);
  EXPECT_EQ(reply.error().code(), StatusCode::DEADLINE_EXCEEDED);
  device_->Unblock();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(stream_->Receive(reply));
    EXPECT_EQ(reply.reply().scores(0), static_cast<float>(reply.id()));
  }
}

TEST_F(HeldStreamTest, ACancelledStreamIsWithdrawn) {
  Start();
  Hold(1);
  Hold(2);
  for (uint64_t id = 3; id <= 10; ++id) ASSERT_TRUE(stream_->Send(id, Id1Request({2})));
  ASSERT_TRUE(Eventually([this] { return InFlight() == 10; }));
  const uint64_t before = device_->rows();
  stream_->Cancel();
  // All but those that are being scored.
  EXPECT_TRUE(Eventually([this] { return InFlight() == 2; }));
  device_->Unblock();
  EXPECT_TRUE(Eventually([this] { return Metric(*server_, "widelane_streams_open") == 0; }));
  EXPECT_EQ(InFlight(), 0);
  EXPECT_EQ(device_->rows(), before);
  EXPECT_EQ(Answered(*server_, "CANCELLED"), 10);
}

TEST_F(HeldStreamTest, ReadsNoMoreThanItMayHaveUnanswered) {
  Start([](ServerConfig& config) { config.front.stream_requests = 4; });
  Hold(1);
  for (uint64_t id = 2; id <= 20; ++id) ASSERT_TRUE(stream_->Send(id, Id1Request({static_cast<float>(id)})));
  stream_->Close();
  ASSERT_TRUE(Eventually([this] { return InFlight() == 4; }));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(InFlight(), 4);
  device_->Unblock();
  uint64_t replies = 0;
  for (v1::StreamReply reply; stream_->Receive(reply); ++replies) {
    EXPECT_EQ(reply.reply().scores(0), static_cast<float>(reply.id()));
  }
  EXPECT_EQ(replies, 20u);
  ExpectOk(stream_->Finish());
}

TEST_F(HeldStreamTest, RefusalsAreAnswersAtOnce) {
  Start([](ServerConfig& config) { config.limits.max_queued_requests = 2; });
  Hold(1);
  ASSERT_TRUE(stream_->Send(2, Id1Request({2})));
  ASSERT_TRUE(stream_->Send(3, Id1Request({3})));
  v1::StreamReply reply;
  ASSERT_TRUE(stream_->Receive(reply));
  EXPECT_EQ(reply.id(), 3u);
  EXPECT_EQ(reply.error().code(), StatusCode::RESOURCE_EXHAUSTED);
  ASSERT_EQ(reply.error().details_size(), 1);
  EXPECT_TRUE(reply.error().details(0).Is<google::rpc::RetryInfo>());
  device_->Unblock();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(stream_->Receive(reply));
    EXPECT_EQ(reply.reply().scores(0), static_cast<float>(reply.id()));
  }
}

TEST_F(HeldStreamTest, AServerThatStopsAnswersWhatItHasRead) {
  Start();
  Hold(1);
  ASSERT_TRUE(stream_->Send(2, Id1Request({2})));
  ASSERT_TRUE(Eventually([this] { return InFlight() == 2; }));
  std::thread stopping([this] { server_->server().Shutdown(); });
  std::this_thread::sleep_for(milliseconds(100));
  device_->Unblock();
  uint64_t replies = 0;
  for (v1::StreamReply reply; stream_->Receive(reply); ++replies) {
    EXPECT_EQ(reply.reply().scores(0), static_cast<float>(reply.id()));
  }
  EXPECT_EQ(replies, 2u);
  ExpectError(stream_->Finish(), StatusCode::UNAVAILABLE);
  stopping.join();
}

// Streams that come and go by cancelling at any moment, for the thread sanitizer.
TEST(StreamTest, CancellingAtAnyMomentLeavesNothingBehind) {
  TestServer server({{"id1", Id1()}}, [](ServerConfig& config) { config.front.stream_requests = 8; });
  std::vector<std::thread> callers;
  for (unsigned caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (unsigned round = 0; round < (kSanitized ? 20U : 60U); ++round) {
        ScoreStream stream(server.stub());
        for (unsigned id = 0; id < (caller + round) % 7; ++id) {
          v1::StreamRequests message;
          for (unsigned i = 0; i <= round % 5; ++i) {
            Add(message, id, Id1Request(std::vector<float>((id + i) % 2 == 0 ? 1 : 3000, 1.0F)));
          }
          stream.Send(message);
        }
        if (round % 3 == 0) {
          v1::StreamReply reply;
          if ((caller + round) % 7 > 0) stream.Receive(reply);
        }
        stream.Cancel();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(Eventually([&] { return Metric(server, "widelane_streams_open") == 0; }));
  EXPECT_EQ(Metric(server, "widelane_requests_in_flight"), 0);
  ExpectNear(server.Scores(Id1Request({7})), {7});
}

}  // namespace
}  // namespace widelane::test
