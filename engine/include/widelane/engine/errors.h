// What an error is about, in a form that a protocol can pass on: the field of the request.

#ifndef WIDELANE_ENGINE_ERRORS_H_
#define WIDELANE_ENGINE_ERRORS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace widelane {

// INVALID_ARGUMENT about `field` ("indptr", "indices[17]"); the message begins with the field.
absl::Status FieldError(absl::string_view field, absl::string_view problem);

// The field a FieldError was made for, also after other layers have passed it on. Absent for other statuses.
std::optional<std::string> ErrorField(const absl::Status& status);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_ERRORS_H_
