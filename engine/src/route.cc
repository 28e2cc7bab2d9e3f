#include "widelane/engine/route.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace widelane {

absl::StatusOr<Route> ParseRoute(const std::string& text) {
  for (size_t i = 0; i < kRouteNames.size(); ++i) {
    if (text == kRouteNames[i]) return static_cast<Route>(i);
  }
  return absl::InvalidArgumentError(absl::StrCat("route: '", text, "' is none of ", absl::StrJoin(kRouteNames, ", ")));
}

}  // namespace widelane
