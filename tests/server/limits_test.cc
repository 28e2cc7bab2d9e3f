#include "server/front/limits.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/front/context.h"
#include "tests/support/rows.h"
#include "tests/support/test_server.h"

namespace widelane {
namespace {

TEST(LimitsTest, NamesLimitValueAndOption) {
  const absl::Status status = LimitError(kMaxRequestRows, 10, "rows of the request:", 11);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "rows of the request: 11, the limit is 10 (--max-request-rows)");
  EXPECT_EQ(ErrorLimit(status), kMaxRequestRows);
  EXPECT_FALSE(ErrorLimit(absl::ResourceExhaustedError("x")).has_value());
}

TEST(LimitsTest, OnlyAFullServerPasses) {
  EXPECT_TRUE(IsPassing(LimitError(kMaxQueuedBytes, 1, "", 2)));
  EXPECT_TRUE(IsPassing(LimitError(kMaxQueuedRows, 1, "", 2)));
  EXPECT_FALSE(IsPassing(LimitError(kMaxMessageBytes, 1, "", 2)));
}

TEST(AdmissionTest, GivesBackWhatItRefuses) {
  LimitsConfig limits;
  limits.max_queued_requests = 1;
  limits.max_queued_bytes = 10;
  limits.max_queued_rows = 5;
  limits.max_queued_reply_bytes = 20;
  Admission admission(limits);
  EXPECT_TRUE(admission.Enter().ok());
  EXPECT_EQ(ErrorLimit(admission.Enter()), kMaxQueuedRequests);
  admission.Leave();
  EXPECT_TRUE(admission.Enter().ok());
  EXPECT_TRUE(admission.TakeBytes(10).ok());
  EXPECT_EQ(ErrorLimit(admission.TakeBytes(1)), kMaxQueuedBytes);
  admission.GiveBytes(10);
  EXPECT_TRUE(admission.TakeBytes(10).ok());
  EXPECT_TRUE(admission.TakeRows(5).ok());
  EXPECT_EQ(ErrorLimit(admission.TakeRows(1)), kMaxQueuedRows);
  admission.GiveRows(5);
  EXPECT_TRUE(admission.TakeRows(5).ok());
  EXPECT_TRUE(admission.TakeReplyBytes(20).ok());
  EXPECT_EQ(ErrorLimit(admission.TakeReplyBytes(1)), kMaxQueuedReplyBytes);
}

TEST(LimitsTest, PlainNumbersCountAsWhatTheyBecome) {
  test::TestServer server({{"id1", test::Id1()}},
                          [](ServerConfig& config) { config.limits.max_queued_bytes = 1 << 20; });
  const int64_t entries = 200'000;  // a byte each on the wire, eight in memory
  const auto rows = test::PlainRows({0, entries}, std::vector<int64_t>(entries, 0));
  const grpc::Status status = server.Score(test::Request("id1", rows)).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(status.error_message().find(kMaxQueuedBytes), std::string::npos) << status.error_message();
  EXPECT_EQ(server.Scores(test::Id1Request({7})), std::vector<float>{7});
}

TEST(LimitsTest, RowsThatAreTooLongAreCounted) {
  test::TestServer server({{"id1", test::Id1()}}, [](ServerConfig& config) { config.engine.slab.entries = 16; });
  const auto rows = test::PlainRows({test::WireRow(17, {0, 1.0f})});
  EXPECT_EQ(server.Score(test::Request("id1", rows)).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(server.Metrics().find("widelane_refused_total{reason=\"slab-entries\"} 1"), std::string::npos);
}

}  // namespace
}  // namespace widelane
