#include "server/front/limits.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace widelane {

namespace {
constexpr char kLimitPayload[] = "widelane/limit";
}  // namespace

absl::Status AboutLimit(absl::Status status, absl::string_view option) {
  status.SetPayload(kLimitPayload, absl::Cord(option));
  return status;
}

absl::Status LimitError(absl::string_view option, uint64_t limit, absl::string_view what, uint64_t asked) {
  return AboutLimit(
      absl::ResourceExhaustedError(absl::StrCat(what, " ", asked, ", the limit is ", limit, " (--", option, ")")),
      option);
}

std::optional<std::string> ErrorLimit(const absl::Status& status) {
  const auto payload = status.GetPayload(kLimitPayload);
  if (!payload.has_value()) return std::nullopt;
  return std::string(*payload);
}

bool IsPassing(const absl::Status& limit_error) {
  const std::optional<std::string> option = ErrorLimit(limit_error);
  return option == kMaxQueuedRequests || option == kMaxQueuedRows || option == kMaxQueuedBytes ||
         option == kMaxQueuedReplyBytes;
}

}  // namespace widelane
