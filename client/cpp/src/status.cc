#include "src/status.h"

#include <chrono>
#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "widelane/client/client.h"

namespace widelane::client {
namespace {

template <typename Detail>
std::optional<Detail> DetailOf(const absl::Status& status) {
  const auto payload = status.GetPayload(absl::StrCat("type.googleapis.com/", Detail::descriptor()->full_name()));
  Detail detail;
  if (!payload.has_value() || !detail.ParseFromString(std::string(*payload))) return std::nullopt;
  return detail;
}

}  // namespace

absl::Status FromMessage(const google::rpc::Status& status) {
  absl::Status result(static_cast<absl::StatusCode>(status.code()), status.message());
  for (const auto& detail : status.details()) result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  return result;
}

absl::Status FromGrpc(const grpc::Status& status) {
  google::rpc::Status message;
  // Details are a google.rpc.Status of their own; code and message of the call count.
  if (!message.ParseFromString(status.error_details())) message.Clear();
  message.set_code(status.error_code());
  message.set_message(status.error_message());
  return FromMessage(message);
}

std::optional<std::string> ErrorField(const absl::Status& status) {
  const auto detail = DetailOf<google::rpc::BadRequest>(status);
  if (!detail.has_value() || detail->field_violations().empty()) return std::nullopt;
  return detail->field_violations(0).field();
}

std::optional<std::chrono::milliseconds> RetryDelay(const absl::Status& status) {
  const auto detail = DetailOf<google::rpc::RetryInfo>(status);
  if (!detail.has_value()) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::seconds(detail->retry_delay().seconds()) +
                                                               std::chrono::nanoseconds(detail->retry_delay().nanos()));
}

}  // namespace widelane::client
