#include "server/front/limits.h"

#include <gtest/gtest.h>

#include "server/front/context.h"

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
  EXPECT_FALSE(IsPassing(LimitError(kMaxMessageBytes, 1, "", 2)));
}

TEST(AdmissionTest, GivesBackWhatItRefuses) {
  LimitsConfig limits;
  limits.max_queued_requests = 1;
  limits.max_queued_bytes = 10;
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
  EXPECT_TRUE(admission.TakeReplyBytes(20).ok());
  EXPECT_EQ(ErrorLimit(admission.TakeReplyBytes(1)), kMaxQueuedReplyBytes);
}

}  // namespace
}  // namespace widelane
