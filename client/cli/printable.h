// Text from files, made fit for messages.

#ifndef WIDELANE_CLIENT_CLI_PRINTABLE_H_
#define WIDELANE_CLIENT_CLI_PRINTABLE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace widelane::cli {

// Bytes of a token that a message shows, before they are escaped.
inline constexpr size_t kShownBytes = 60;

// The token, cut after kShownBytes with "..." in place of the rest. Whatever is not plain ASCII, and could so give a
// terminal orders, is escaped as in C.
std::string Printable(absl::string_view token);

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_PRINTABLE_H_
