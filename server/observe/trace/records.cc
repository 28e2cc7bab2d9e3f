#include "server/observe/trace/records.h"

#include <unistd.h>

#include <algorithm>

namespace widelane {

ShortName::ShortName(absl::string_view name) : size_(static_cast<uint8_t>(std::min(name.size(), text_.size()))) {
  std::copy_n(name.begin(), size_, text_.begin());
}

uint32_t ThreadNumber() {
  thread_local const auto number = static_cast<uint32_t>(gettid());
  return number;
}

}  // namespace widelane
