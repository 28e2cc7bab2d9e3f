#include "widelane/engine/device.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace widelane {

absl::StatusOr<DeviceSelection> ParseDevices(const std::string& text) {
  using Kind = DeviceSelection::Kind;
  if (text == "auto") return DeviceSelection{Kind::kAuto, {}};
  if (text == "cpu") return DeviceSelection{Kind::kCpu, {}};
  if (text == "gpu") return DeviceSelection{Kind::kGpu, {}};
  DeviceSelection selection{Kind::kList, {}};
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    int index = 0;
    if (!absl::SimpleAtoi(part, &index) || index < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "devices: '", part, "' in '", text, "' is no GPU; give auto, cpu, gpu or numbers of visible GPUs as in 0,2"));
    }
    if (std::find(selection.gpus.begin(), selection.gpus.end(), index) != selection.gpus.end()) {
      return absl::InvalidArgumentError(absl::StrCat("devices: GPU ", index, " comes twice in '", text, "'"));
    }
    selection.gpus.push_back(index);
  }
  return selection;
}

}  // namespace widelane
