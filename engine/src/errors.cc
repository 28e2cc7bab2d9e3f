#include "widelane/engine/errors.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace widelane {

namespace {
constexpr char kFieldPayload[] = "widelane/field";
}  // namespace

absl::Status FieldError(absl::string_view field, absl::string_view problem) {
  absl::Status status = absl::InvalidArgumentError(absl::StrCat(field, ": ", problem));
  status.SetPayload(kFieldPayload, absl::Cord(field));
  return status;
}

std::optional<std::string> ErrorField(const absl::Status& status) {
  const auto payload = status.GetPayload(kFieldPayload);
  if (!payload.has_value()) return std::nullopt;
  return std::string(*payload);
}

}  // namespace widelane
