// What was answered is what was counted.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>

#include "tests/support/expect.h"
#include "tests/support/fake_clock.h"
#include "tests/support/held_server.h"
#include "tests/support/http.h"
#include "tests/support/process.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"
#include "tests/support/ways.h"

namespace widelane::test {
namespace {

double Requests(const std::string& page, const std::string& code) {
  std::vector<std::string> labels = {"method=\"Score\""};
  if (!code.empty()) labels.push_back("code=\"" + code + "\"");
  return MetricValue(page, "widelane_requests_total", labels).value_or(-1);
}

TEST(AccountingTest, CountsRequestsByStatusAndRowsApart) {
  TestServer server({{"r4", R4()}}, [](ServerConfig& config) { config.limits.max_request_rows = 100; });
  for (int i = 0; i < 10; ++i) ExpectOk(server.Score(Request("r4", PlainRows({{{2, 3.0f}}, {}, {}}))).status);
  for (int i = 0; i < 2; ++i) server.Score(Request("r4", PlainRows({{{4, 1.0f}}})));
  CallRaw(server.channel(), kScoreMethod, "\x1a\xff");
  server.Score(Request("stranger", PlainRows({WireRow{}})));
  server.Score(Request("r4", PlainRows(std::vector<WireRow>(101))));

  ASSERT_TRUE(Eventually([&] {
    const std::string page = server.Metrics();
    return Requests(page, "") == 15 && MetricValue(page, "widelane_requests_in_flight") == 0;  // the last to be counted
  }));
  const std::string page = server.Metrics();
  EXPECT_EQ(Requests(page, "OK"), 10);
  EXPECT_EQ(Requests(page, "INVALID_ARGUMENT"), 3);
  EXPECT_EQ(Requests(page, "NOT_FOUND"), 1);
  EXPECT_EQ(Requests(page, "RESOURCE_EXHAUSTED"), 1);
  EXPECT_EQ(MetricValue(page, "widelane_request_duration_seconds_count", {"method=\"Score\""}), 15.0);
  EXPECT_EQ(MetricValue(page, "widelane_rows_total", {"model=\"r4\""}), 30.0);
  EXPECT_EQ(MetricValue(page, "widelane_entries_total"), 10.0);
  EXPECT_EQ(MetricValue(page, "widelane_requests_in_flight"), 0.0);
  EXPECT_GE(MetricValue(page, "widelane_refused_total").value_or(-1), 1.0);
  EXPECT_EQ(MetricValue(page, "widelane_models_available"), 1.0);
}

using grpc::StatusCode;
using std::chrono::seconds;

// Requests that are under way at once, by one of the ways.
class Asker {
 public:
  Asker(Way way, v1::Scoring::Stub& stub) : way_(way), stub_(stub), stream_(stub) {}

  // It may take `time` of the server's clock.
  void Send(const v1::ScoreRequest& request, seconds time = kCallLimit) {
    ++sent_;
    if (way_ == Way::kScore) {
      calls_.Send(stub_, request, time);
    } else {
      ASSERT_TRUE(stream_.Send(sent_, request, static_cast<uint32_t>(std::chrono::milliseconds(time).count())));
    }
  }
  // The last one; of a stream all.
  void Cancel() { way_ == Way::kScore ? calls_.Cancel(sent_ - 1) : stream_.Cancel(); }
  // How many ended with each code. Waits for all.
  std::map<StatusCode, int> Codes() {
    std::map<StatusCode, int> codes;
    for (size_t i = 0; i < sent_; ++i) ++codes[way_ == Way::kScore ? calls_.Wait(i).status.error_code() : NextCode()];
    return codes;
  }

 private:
  StatusCode NextCode() {
    v1::StreamReply reply;
    if (!stream_.Receive(reply)) return StatusCode::UNKNOWN;
    return static_cast<StatusCode>(reply.error().code());
  }

  const Way way_;
  v1::Scoring::Stub& stub_;
  PendingCalls calls_;
  ScoreStream stream_;
  size_t sent_ = 0;
};

class OutcomesTest : public ::testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, OutcomesTest, ::testing::ValuesIn(kWays), WayName);

TEST_P(OutcomesTest, EachIsCountedOnceAsWhatWasSent) {
  FakeClock clock;
  HeldServer server(
      {{"id1", Id1()}}, [](ServerConfig& config) { config.limits.max_queued_requests = 4; }, &clock);
  const std::string method = GetParam() == Way::kScore ? "method=\"Score\"" : "method=\"ScoreStream\"";
  const auto ended = [&](const std::string& code) {
    return server.Metric("widelane_requests_total", {method, "code=\"" + code + "\""});
  };
  const auto score = [&](const v1::ScoreRequest& request) {
    return Score(GetParam(), server.stub(), request).status.error_code();
  };
  for (int i = 0; i < 9; ++i) EXPECT_EQ(score(Id1Request({1})), StatusCode::OK);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(score(Request("id1", PlainRows({{{1, 1.0f}}}))), StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_EQ(score(Request("stranger", PlainRows({WireRow{}}))), StatusCode::NOT_FOUND);
  ASSERT_TRUE(server.WaitForInFlight(0));

  // The tenth good one keeps the device busy; behind it two run out of time, and one is not wanted any more.
  Asker asker(GetParam(), server.stub());
  Asker canceller(GetParam(), server.stub());
  server.device().Block();
  const uint64_t batches = server.batches();
  asker.Send(Id1Request({1}));
  ASSERT_TRUE(server.WaitForBatches(batches + 1));
  for (int i = 0; i < 2; ++i) asker.Send(Id1Request({1}), seconds(30));
  canceller.Send(Id1Request({1, 2}));
  ASSERT_TRUE(server.WaitForInFlight(4));
  ASSERT_TRUE(Eventually([&] { return server.Metric("widelane_queued_requests") == 3; }));
  EXPECT_EQ(server.Metric("widelane_queued_rows"), 4);
  EXPECT_GT(server.Metric("widelane_queued_bytes"), 0);
  EXPECT_EQ(server.Metric("widelane_rows_in_flight"), 5);
  EXPECT_GT(server.Metric("widelane_request_bytes_in_flight"), 0);
  EXPECT_GT(server.Metric("widelane_reply_bytes_in_flight"), 0);
  EXPECT_EQ(server.Metric("widelane_lanes_busy", {"device=\"GPU-fake-0\""}), 1);
  EXPECT_GE(server.Metric("widelane_slabs_in_use"), 2);
  asker.Send(Id1Request({1}));  // there is no room for it
  ASSERT_TRUE(Eventually([&] { return ended("RESOURCE_EXHAUSTED") == 1; }));
  canceller.Cancel();
  ASSERT_TRUE(server.WaitForInFlight(3));
  clock.Advance(seconds(31));
  ASSERT_TRUE(server.WaitForInFlight(1));
  server.device().Unblock();
  const std::map<StatusCode, int> codes = {
      {StatusCode::OK, 1}, {StatusCode::DEADLINE_EXCEEDED, 2}, {StatusCode::RESOURCE_EXHAUSTED, 1}};
  EXPECT_EQ(asker.Codes(), codes);

  server.device().set_failure(absl::InternalError("the fake GPU fell off the bus"));
  server.cpu().set_failure(absl::InternalError("the fake CPU is on fire"));
  EXPECT_EQ(score(Id1Request({1})), StatusCode::INTERNAL);

  ASSERT_TRUE(server.WaitForInFlight(0));
  EXPECT_EQ(ended("OK"), 10);
  EXPECT_EQ(ended("INVALID_ARGUMENT"), 3);
  EXPECT_EQ(ended("DEADLINE_EXCEEDED"), 2);
  EXPECT_EQ(ended("CANCELLED"), 1);
  EXPECT_EQ(ended("RESOURCE_EXHAUSTED"), 1);
  EXPECT_EQ(ended("NOT_FOUND"), 1);
  EXPECT_EQ(ended("INTERNAL"), 1);
  EXPECT_EQ(server.Metric("widelane_requests_total", {method}), 19);
  EXPECT_EQ(server.Metric("widelane_request_duration_seconds_count", {method}), 19);
  EXPECT_EQ(server.Metric("widelane_refused_total"), 1);
  EXPECT_EQ(server.Metric("widelane_rows_total", {"model=\"id1\""}), 10);
  for (const char* gauge : {"widelane_rows_in_flight", "widelane_request_bytes_in_flight",
                            "widelane_reply_bytes_in_flight", "widelane_queued_requests", "widelane_queued_rows",
                            "widelane_queued_bytes", "widelane_slabs_in_use", "widelane_lanes_busy"}) {
    EXPECT_TRUE(Eventually([&] { return server.Metric(gauge) == 0; })) << gauge;
  }
}

TEST(AccountingTest, SeriesOfAModelAreThereFromTheStart) {
  TestServer server({{"r4", R4()}});
  const std::string page = server.Metrics();
  EXPECT_EQ(MetricValue(page, "widelane_rows_total", {"model=\"r4\"", "version=\"1\""}), 0.0);
  EXPECT_EQ(MetricValue(page, "widelane_ignored_features_total", {"model=\"r4\""}), 0.0);
  EXPECT_EQ(MetricValue(page, "widelane_requests_total", {"method=\"Score\"", "code=\"OK\""}), 0.0);
  EXPECT_EQ(MetricValue(page, "widelane_build_info"), 1.0);
}

TEST(AccountingTest, SeriesAreTheSameWhereverAModelCameFrom) {
  const TempDir repository;
  repository.Write("stored/1/model.safetensors", *R4());
  TestServer server({{"given", R4()}}, [&](ServerConfig& config) {
    config.models.repository = repository.path();
    config.metrics.triton = true;
  });
  std::istringstream page(server.Metrics());
  std::set<std::string> given;
  std::set<std::string> stored;
  for (std::string line; std::getline(page, line);) {
    const std::string series = line.substr(0, line.rfind(' '));
    if (const size_t at = series.find("\"given\""); at != std::string::npos) {
      given.insert(std::string(series).replace(at, 7, "\"stored\""));
    }
    if (series.find("\"stored\"") != std::string::npos) stored.insert(series);
  }
  EXPECT_GT(given.size(), 10u);
  EXPECT_EQ(given, stored);
}

TEST(AccountingTest, TritonsNamesCountTheSame) {
  TestServer server({{"r4", R4()}}, [](ServerConfig& config) { config.metrics.triton = true; });
  for (int i = 0; i < 3; ++i) ExpectOk(server.Score(Request("r4", PlainRows({{{2, 3.0f}}, {}}))).status);
  server.Score(Request("r4", PlainRows({{{4, 1.0f}}})));
  server.Score(Request("stranger", PlainRows({WireRow{}})));
  ASSERT_TRUE(Eventually([&] { return Requests(server.Metrics(), "") == 5; }));
  const std::string page = server.Metrics();
  const auto value = [&](const std::string& name) {
    return MetricValue(page, "nv_inference_" + name, {"model=\"r4\"", "version=\"1\""}).value_or(-1);
  };
  EXPECT_EQ(value("request_success"), 3);
  EXPECT_EQ(value("request_failure"), 1);
  EXPECT_EQ(value("count"), 6);
  EXPECT_EQ(value("exec_count"), 3);
  EXPECT_EQ(value("pending_request_count"), 0);
  const double total = value("request_duration_us");
  EXPECT_GT(total, 0);
  EXPECT_NEAR(value("queue_duration_us") + value("compute_input_duration_us") + value("compute_infer_duration_us") +
                  value("compute_output_duration_us"),
              total, 1e-6 * total);
  EXPECT_EQ(page.find("stranger"), std::string::npos);
}

TEST(AccountingTest, WithoutMetricsAllElseIsAsItWas) {
  TestServer server({{"r4", R4()}}, [](ServerConfig& config) { config.metrics.on = false; });
  const std::string address = server.server().http_address();
  const HttpReply page = HttpGet(address, "/metrics");
  EXPECT_EQ(page.status, 404);
  EXPECT_EQ(page.body, "metrics are off (--metrics false)\n");
  EXPECT_EQ(HttpGet(address, "/readyz").status, 200);
  v1::ScoreRequest request = Request("r4", PlainRows({{{2, 3.0f}}}));
  request.set_stage_times(true);
  const ScoreResult result = server.Score(request);
  ExpectOk(result.status);
  EXPECT_GT(result.reply.stage_times().total_ns(), 0u);
  EXPECT_EQ(server.Score(Request("r4", PlainRows({{{4, 1.0f}}}))).status.error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(AccountingTest, ThePageIsPlainText) {
  TestServer server({{"r4", R4()}});
  const HttpReply reply = HttpGet(server.server().http_address(), "/metrics");
  EXPECT_EQ(reply.status, 200);
  EXPECT_NE(reply.head.find("text/plain; version=0.0.4; charset=utf-8"), std::string::npos) << reply.head;
  EXPECT_EQ(reply.body.back(), '\n');
  EXPECT_EQ(HttpGet(server.server().http_address(), "/nothing").status, 404);
}

TEST(AccountingTest, PrometheusHasNothingToSayAboutThePage) {
  const std::string promtool = FindProgram("promtool");
  if (promtool.empty()) GTEST_SKIP() << "promtool (prometheus) is not installed";
  TestServer server({{"r4", R4()}});
  ExpectOk(server.Score(Request("r4", PlainRows({{{2, 3.0f}}}))).status);
  const TempDir files;
  const std::string page = files.Write("page", server.Metrics());
  const Finished checked = RunProgram({"/bin/sh", "-c", promtool + " check metrics < " + page});
  EXPECT_EQ(checked.exit_code, 0) << checked.out << checked.err;
}

}  // namespace
}  // namespace widelane::test
