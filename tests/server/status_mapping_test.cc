#include "server/front/status_mapping.h"

#include <gtest/gtest.h>

#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/front/limits.h"
#include "widelane/engine/errors.h"

namespace widelane {
namespace {

google::rpc::Status DetailsOf(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  return details;
}

bool TellsWhenToRetry(const absl::Status& status) {
  const google::rpc::Status details = DetailsOf(ToGrpcStatus(status));
  for (const auto& detail : details.details()) {
    if (detail.Is<google::rpc::RetryInfo>()) return true;
  }
  return false;
}

TEST(StatusMappingTest, NamesTheFieldInADetail) {
  const absl::Status status = InRows(FieldError("indices[17]", "row 3, position 2: is 9, the model has 4 features"));
  const grpc::Status mapped = ToGrpcStatus(status);
  EXPECT_EQ(mapped.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(mapped.error_message(), "rows.indices[17]: row 3, position 2: is 9, the model has 4 features");
  google::rpc::BadRequest bad_request;
  ASSERT_EQ(DetailsOf(mapped).details_size(), 1);
  ASSERT_TRUE(DetailsOf(mapped).details(0).UnpackTo(&bad_request));
  EXPECT_EQ(bad_request.field_violations(0).field(), "rows.indices[17]");
}

TEST(StatusMappingTest, LeavesOtherFieldsAlone) {
  EXPECT_EQ(InRows(FieldError("rows.indptr", "x")).message(), "rows.indptr: x");
  EXPECT_EQ(InRows(absl::InternalError("x")).message(), "x");
}

TEST(StatusMappingTest, TellsWhenToRetryOnlyIfThatHelps) {
  EXPECT_TRUE(TellsWhenToRetry(absl::UnavailableError("model 'x' is loading")));
  EXPECT_TRUE(TellsWhenToRetry(LimitError(kMaxQueuedRequests, 1, "", 2)));
  EXPECT_FALSE(TellsWhenToRetry(LimitError(kMaxMessageBytes, 1, "", 2)));
  EXPECT_FALSE(TellsWhenToRetry(absl::NotFoundError("x")));
}

TEST(StatusMappingTest, StaysWithinTheMetadataLimit) {
  const std::string ugly(100'000, '%');
  const grpc::Status status = ToGrpcStatus(FieldError(ugly, ugly));
  // Percent-encoding makes three bytes of one, base64 four of three.
  EXPECT_LT(3 * status.error_message().size() + status.error_details().size() * 4 / 3, 8192u);
}

TEST(StatusMappingTest, CodesKeepTheirNumbers) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_STREQ(StatusCodeName(grpc::StatusCode::RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED");
  EXPECT_STREQ(StatusCodeName(ToGrpcStatus(absl::OutOfRangeError("x")).error_code()), "OUT_OF_RANGE");
  EXPECT_STREQ(StatusCodeName(ToGrpcStatus(absl::DataLossError("x")).error_code()), "DATA_LOSS");
}

}  // namespace
}  // namespace widelane
