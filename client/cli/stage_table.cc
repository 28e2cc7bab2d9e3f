#include "client/cli/stage_table.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/table.h"

namespace widelane::cli {
namespace {

using client::StageTimes;
using std::chrono::nanoseconds;

struct Column {
  const char* name;
  nanoseconds StageTimes::*time;
};
constexpr std::array<Column, 8> kColumns = {{{"queue", &StageTimes::queue},
                                             {"pack", &StageTimes::pack},
                                             {"launch", &StageTimes::launch},
                                             {"transfer_in", &StageTimes::transfer_in},
                                             {"compute", &StageTimes::compute},
                                             {"transfer_out", &StageTimes::transfer_out},
                                             {"reply", &StageTimes::reply},
                                             {"total", &StageTimes::total}}};

std::string Milliseconds(nanoseconds time) {
  return absl::StrFormat("%.3f", std::chrono::duration<double, std::milli>(time).count());
}

}  // namespace

void StageTable::Add(const StageTimes& times) { calls_.push_back(times); }

std::string StageTable::Format() const {
  if (calls_.empty()) return "";
  std::vector<std::vector<std::string>> rows = {{"stage", "p50 ms", "sum ms"}};
  std::vector<nanoseconds> times(calls_.size());
  for (const Column& column : kColumns) {
    nanoseconds sum{0};
    for (size_t i = 0; i < calls_.size(); ++i) {
      times[i] = calls_[i].*column.time;
      sum += times[i];
    }
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    rows.push_back({column.name, Milliseconds(*middle), Milliseconds(sum)});
  }
  uint64_t batches = 0;
  std::set<std::string> devices;
  for (const StageTimes& call : calls_) {
    batches += call.batches;
    devices.insert(call.device);
  }
  return absl::StrCat(FormatTable(rows), calls_.size(), " calls in ", batches, " batches on ",
                      absl::StrJoin(devices, ", "), "\n");
}

}  // namespace widelane::cli
