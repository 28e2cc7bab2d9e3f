// Requests that take long get a line with their stages, by a clock that only the test moves.

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/support/captured_log.h"
#include "tests/support/expect.h"
#include "tests/support/fake_clock.h"
#include "tests/support/held_server.h"
#include "tests/support/rows.h"

namespace widelane::test {
namespace {

using std::chrono::milliseconds;

constexpr char kTraceId[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kTraceParent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

class SlowRequestsTest : public ::testing::TestWithParam<bool> {
 protected:
  // By Score, or in a stream; ends `time` after it has come. OK when it was answered so.
  absl::StatusCode ScoreFor(milliseconds time, const v1::ScoreRequest& request, const std::string& trace_parent) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallLimit);
    if (!trace_parent.empty()) context.AddMetadata("traceparent", trace_parent);
    server_.device().Block();
    const uint64_t batches = server_.batches();
    std::thread device([&] {
      EXPECT_TRUE(server_.WaitForBatches(batches + 1));
      clock_.Advance(time);
      server_.device().Unblock();
    });
    const absl::StatusCode code = GetParam() ? Stream(context, request) : Call(context, request);
    device.join();
    return code;
  }

  int SlowOnes() const { return static_cast<int>(server_.Metric("widelane_slow_requests_total")); }
  nlohmann::json Line() const {
    const auto lines = log_.LinesWith("\"slow request\"");
    EXPECT_EQ(lines.size(), 1u);
    return lines.empty() ? nlohmann::json::object() : nlohmann::json::parse(lines[0]);
  }

  const CapturedLog log_{"json"};
  FakeClock clock_;
  HeldServer server_{{{"id1", Id1()}}, {}, &clock_};

 private:
  absl::StatusCode Call(grpc::ClientContext& context, const v1::ScoreRequest& request) {
    v1::ScoreReply reply;
    return static_cast<absl::StatusCode>(server_.stub().Score(&context, request, &reply).error_code());
  }
  absl::StatusCode Stream(grpc::ClientContext& context, const v1::ScoreRequest& request) {
    const auto stream = server_.stub().ScoreStream(&context);
    v1::StreamRequests message;
    v1::StreamRequest& added = *message.add_requests();
    added.set_id(1);
    *added.mutable_request() = request;
    v1::StreamReplies replies;
    EXPECT_TRUE(stream->Write(message) && stream->WritesDone() && stream->Read(&replies));
    ExpectOk(stream->Finish());
    return replies.replies_size() == 1 ? static_cast<absl::StatusCode>(replies.replies(0).error().code())
                                       : absl::StatusCode::kUnknown;
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, SlowRequestsTest, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "Stream" : "Unary"; });

TEST_P(SlowRequestsTest, TellsWhatItWasAndWhereItsTimeWent) {
  v1::ScoreRequest request = Id1Request({1, 2, 3});
  request.set_priority(v1::HIGH);
  ASSERT_EQ(ScoreFor(milliseconds(1500), request, kTraceParent), absl::StatusCode::kOk);
  EXPECT_EQ(SlowOnes(), 1);
  const nlohmann::json line = Line();
  EXPECT_EQ(line["level"], "warning");
  EXPECT_EQ(line["method"], GetParam() ? "ScoreStream" : "Score");
  EXPECT_EQ(line["model"], "id1");
  EXPECT_EQ(line["version"], "1");
  EXPECT_EQ(line["code"], "OK");
  EXPECT_EQ(line["rows"], 3);
  EXPECT_EQ(line["entries"], 3);
  EXPECT_EQ(line["priority"], "high");
  EXPECT_EQ(line["device"], "GPU-fake-0");
  EXPECT_EQ(line["batches"], 1);
  EXPECT_EQ(line["batch_rows"], 3);
  EXPECT_EQ(line["trace_id"], kTraceId);
  // Whether it was slow goes by the server's clock, here the test's; where its time went by the machine's.
  double stages_ms = 0;
  for (const char* stage : {"queue", "pack", "launch", "transfer_in", "compute", "transfer_out", "reply"}) {
    const nlohmann::json& time = line[std::string(stage) + "_ms"];
    ASSERT_TRUE(time.is_number()) << stage;
    stages_ms += time.get<double>();
  }
  EXPECT_NEAR(stages_ms, line["total_ms"].get<double>(), 1e-3);
}

TEST_P(SlowRequestsTest, WithoutATraceThereIsNone) {
  ASSERT_EQ(ScoreFor(milliseconds(1000), Id1Request({1}), ""), absl::StatusCode::kOk);
  EXPECT_FALSE(Line().contains("trace_id"));
}

TEST_P(SlowRequestsTest, AMalformedTraceIsIgnored) {
  ASSERT_EQ(ScoreFor(milliseconds(1000), Id1Request({1}), "00-0-0-00"), absl::StatusCode::kOk);
  EXPECT_FALSE(Line().contains("trace_id"));
}

TEST_P(SlowRequestsTest, OthersAreNotTold) {
  ASSERT_EQ(ScoreFor(milliseconds(999), Id1Request({1}), kTraceParent), absl::StatusCode::kOk);
  EXPECT_EQ(SlowOnes(), 0);
  EXPECT_EQ(log_.Count("slow request"), 0);
}

}  // namespace
}  // namespace widelane::test
