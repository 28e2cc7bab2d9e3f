// What was answered is what was counted.

#include <gtest/gtest.h>

#include "tests/support/expect.h"
#include "tests/support/http.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"

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

  ASSERT_TRUE(Eventually([&] { return Requests(server.Metrics(), "") == 15; }));
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

TEST(AccountingTest, SeriesOfAModelAreThereFromTheStart) {
  TestServer server({{"r4", R4()}});
  const std::string page = server.Metrics();
  EXPECT_EQ(MetricValue(page, "widelane_rows_total", {"model=\"r4\"", "version=\"1\""}), 0.0);
  EXPECT_EQ(MetricValue(page, "widelane_ignored_features_total", {"model=\"r4\""}), 0.0);
  EXPECT_EQ(MetricValue(page, "widelane_requests_total", {"method=\"Score\"", "code=\"OK\""}), 0.0);
  EXPECT_EQ(MetricValue(page, "widelane_build_info"), 1.0);
}

TEST(AccountingTest, ThePageIsPlainText) {
  TestServer server({{"r4", R4()}});
  const HttpReply reply = HttpGet(server.server().http_address(), "/metrics");
  EXPECT_EQ(reply.status, 200);
  EXPECT_NE(reply.head.find("text/plain; version=0.0.4; charset=utf-8"), std::string::npos) << reply.head;
  EXPECT_EQ(reply.body.back(), '\n');
  EXPECT_EQ(HttpGet(server.server().http_address(), "/nothing").status, 404);
}

}  // namespace
}  // namespace widelane::test
