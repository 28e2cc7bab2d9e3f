#include "client/cli/printable.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace widelane::cli {

std::string Printable(absl::string_view token) {
  return absl::StrCat(absl::CHexEscape(token.substr(0, kShownBytes)), token.size() > kShownBytes ? "..." : "");
}

}  // namespace widelane::cli
