#include "server/front/status_mapping.h"

#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/rpc/error_details.pb.h"
#include "server/front/limits.h"
#include "widelane/engine/errors.h"

namespace widelane {

namespace {

// A message travels three times (percent-encoded, in the status of the details, in the violation).
constexpr size_t kMostStatusBytes = 800;
constexpr int kRetryMilliseconds = 100;

std::string Bounded(absl::string_view message) {
  if (message.size() <= kMostStatusBytes) return std::string(message);
  return absl::StrCat(message.substr(0, kMostStatusBytes), "...");
}

bool MayRetry(const absl::Status& status) {
  if (absl::IsUnavailable(status)) return true;
  // A request that is too large will be so next time.
  return absl::IsResourceExhausted(status) && (!ErrorLimit(status).has_value() || IsPassing(status));
}

}  // namespace

google::rpc::Status ToRpcStatus(const absl::Status& status) {
  const std::string message = Bounded(status.message());
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(message);
  if (const std::optional<std::string> field = ErrorField(status); field.has_value()) {
    google::rpc::BadRequest bad_request;
    google::rpc::BadRequest::FieldViolation& violation = *bad_request.add_field_violations();
    violation.set_field(Bounded(*field));
    violation.set_description(message);
    details.add_details()->PackFrom(bad_request);
  }
  if (MayRetry(status)) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_nanos(kRetryMilliseconds * 1'000'000);
    details.add_details()->PackFrom(retry);
  }
  return details;
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const google::rpc::Status details = ToRpcStatus(status);
  const auto code = static_cast<grpc::StatusCode>(details.code());
  if (details.details_size() == 0) return grpc::Status(code, details.message());
  return grpc::Status(code, details.message(), details.SerializeAsString());
}

const char* StatusCodeName(grpc::StatusCode code) {
  constexpr const char* kNames[] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  return code >= 0 && code <= grpc::StatusCode::UNAUTHENTICATED ? kNames[code] : "UNKNOWN";
}

absl::Status InRows(const absl::Status& status) {
  const std::optional<std::string> field = ErrorField(status);
  if (!field.has_value() || absl::StartsWith(*field, "rows.") || absl::StartsWith(*field, "context")) return status;
  const std::string message(status.message());
  absl::string_view problem = message;
  if (absl::ConsumePrefix(&problem, *field)) absl::ConsumePrefix(&problem, ": ");
  return FieldError(absl::StrCat("rows.", *field), problem);
}

}  // namespace widelane
