#include "client/cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace widelane::cli {
namespace {

constexpr std::chrono::milliseconds kInterval{100};
constexpr size_t kBarWidth = 30;

std::string Short(double number) {
  if (number >= 1e6) return absl::StrFormat("%.1f M", number / 1e6);
  if (number >= 1e4) return absl::StrFormat("%.0f k", number / 1e3);
  return absl::StrFormat("%.0f", number);
}

}  // namespace

std::string ProgressLine(uint64_t done, uint64_t total, uint64_t rows, double seconds) {
  std::string line;
  if (total > 0) {
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    const auto filled = static_cast<size_t>(share * kBarWidth);
    line = absl::StrFormat("[%s%s] %3.0f%%  ", std::string(filled, '='), std::string(kBarWidth - filled, ' '),
                           share * 100);
  }
  absl::StrAppendFormat(&line, "%s rows  %s rows/s", Short(static_cast<double>(rows)),
                        Short(seconds > 0 ? static_cast<double>(rows) / seconds : 0));
  return line;
}

Progress::Progress(uint64_t total, bool wanted) : total_(total), shown_(wanted && isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::Update(uint64_t done, uint64_t rows) {
  const auto now = std::chrono::steady_clock::now();
  if (!shown_ || now - last_ < kInterval) return;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::fprintf(stderr, "\r\033[K%s", ProgressLine(done, total_, rows, seconds).c_str());
}

}  // namespace widelane::cli
