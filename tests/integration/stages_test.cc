// Where the time goes: the stages of a request add up to it, in its reply and in the metrics.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "tests/support/expect.h"
#include "tests/support/held_server.h"
#include "tests/support/http.h"
#include "tests/support/rows.h"
#include "tests/support/ways.h"

namespace widelane::test {
namespace {

using std::chrono::milliseconds;

constexpr double kMs = 1e6;  // in nanoseconds

double SumOf(const v1::StageTimes& times) {
  return static_cast<double>(times.queue_ns()) + static_cast<double>(times.pack_ns()) +
         static_cast<double>(times.launch_ns()) + static_cast<double>(times.transfer_in_ns()) +
         static_cast<double>(times.compute_ns()) + static_cast<double>(times.transfer_out_ns()) +
         static_cast<double>(times.reply_ns());
}

v1::ScoreRequest Timed(int rows) {
  std::vector<double> ones(static_cast<size_t>(rows), 1);
  std::vector<double> zeros(static_cast<size_t>(rows), 0);
  v1::ScoreRequest request;
  request.set_model("id1");
  *request.mutable_rows()->mutable_row_lengths() = Encode(v1::U16, ones);
  *request.mutable_rows()->mutable_indices() = Encode(v1::U16, zeros);
  request.set_stage_times(true);
  return request;
}

std::string MethodOf(Way way) { return way == Way::kScore ? "method=\"Score\"" : "method=\"ScoreStream\""; }

class StagesTest : public ::testing::TestWithParam<Way> {
 protected:
  v1::StageTimes Times(v1::Scoring::StubInterface& stub, int rows) {
    const ScoreResult result = Score(GetParam(), stub, Timed(rows));
    ExpectOk(result.status);
    return result.reply.stage_times();
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, StagesTest, ::testing::ValuesIn(kWays), WayName);

// With slabs for 16,384 rows: the large request is spread over several batches.
TEST_P(StagesTest, AddUpToTheTotal) {
  TestServer server({{"id1", Id1()}});
  int calls = 0;
  for (const int rows : {1, 1000, 100'000}) {
    for (int i = 0; i < 5; ++i) {
      const v1::StageTimes times = Times(server.stub(), rows);
      const auto total = static_cast<double>(times.total_ns());
      EXPECT_NEAR(SumOf(times), total, 0.05 * total + 20e3) << rows;
      EXPECT_GT(times.pack_ns(), 0u) << rows;
      EXPECT_GT(times.compute_ns(), 0u) << rows;
      ++calls;
    }
  }
  const std::string method = MethodOf(GetParam());
  ASSERT_TRUE(Eventually([&] {
    const std::string page = server.Metrics();
    return MetricValue(page, "widelane_requests_total", {method, "code=\"OK\""}) == calls &&
           MetricValue(page, "widelane_requests_in_flight") == 0;  // the last to be counted
  }));
  const std::string page = server.Metrics();
  const double duration = MetricValue(page, "widelane_request_duration_seconds_sum", {method}).value_or(0);
  EXPECT_GT(duration, 0);
  EXPECT_NEAR(MetricValue(page, "widelane_request_stage_duration_seconds_sum").value_or(0), duration, 1e-6 * duration);
  EXPECT_EQ(MetricValue(page, "widelane_request_stage_duration_seconds_count", {"stage=\"compute\""}), calls);
  EXPECT_EQ(MetricValue(page, "widelane_request_stage_duration_seconds_count", {"stage=\"transfer_in\""}), 0);
  EXPECT_EQ(MetricValue(page, "widelane_reply_send_duration_seconds_count", {method}), calls);
}

// What passes until a device begins is queue, whoever holds it up; what the device takes is not.
TEST_P(StagesTest, QueueLastsUntilTheDeviceBegins) {
  HeldServer server({{"id1", Id1()}});
  PendingCalls calls;
  server.Hold(calls, Id1Request({1}));
  v1::StageTimes times;
  std::thread caller([&] { times = Times(server.stub(), 1); });
  EXPECT_TRUE(server.WaitForInFlight(2));
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_TRUE(server.FinishBatch());
  std::this_thread::sleep_for(milliseconds(40));
  server.device().Unblock();
  caller.join();
  EXPECT_GE(static_cast<double>(times.queue_ns()), 59 * kMs);
  // It begins with its start, which may be told before the fake computes.
  EXPECT_GE(static_cast<double>(times.launch_ns() + times.transfer_in_ns() + times.compute_ns()), 39 * kMs);
  const auto total = static_cast<double>(times.total_ns());
  EXPECT_NEAR(SumOf(times), total, 0.05 * total + 20e3);
}

}  // namespace
}  // namespace widelane::test
