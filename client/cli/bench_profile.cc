#include "client/cli/bench_profile.h"

#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace widelane::cli {
namespace {

struct LongRow {
  uint64_t row;
  uint32_t entries;
};
// Early, so that small batches have some, too.
constexpr std::array<LongRow, 4> kLongRows = {{{0, 100'000}, {16, 250'000}, {64, 500'000}, {256, 1'000'000}}};

BenchProfile Profile(const char* name, uint64_t features, uint32_t entries_per_row) {
  BenchProfile profile;
  profile.name = name;
  profile.features = features;
  profile.entries_per_row = entries_per_row;
  return profile;
}

std::vector<BenchProfile> AllProfiles() {
  std::vector<BenchProfile> all = {
      Profile("text-54k", 54'000, 40),  Profile("ctr-1M", 1'000'000, 39),  Profile("multihot-178M", 178'000'000, 214),
      Profile("rank", 1'000'000, 240),  Profile("1B", 1'000'000'000, 100), Profile("long", 1'000'000, 40),
      Profile("labels-1k", 54'000, 40), Profile("labels-10k", 100'000, 64)};
  for (BenchProfile& profile : all) {
    profile.long_rows = profile.name == "long";
    if (profile.name == "rank") {
      profile.context = 200;
      profile.context_rows = 500;
    }
    if (profile.name == "labels-1k" || profile.name == "labels-10k") {
      profile.outputs = profile.name == "labels-1k" ? 1'000 : 10'000;
      profile.best = 10;
    }
    if (profile.name == "labels-10k") profile.weights = WeightType::kFloat16;
  }
  return all;
}

}  // namespace

uint32_t BenchProfile::EntriesOfRow(uint64_t row) const {
  if (long_rows) {
    for (const LongRow& one : kLongRows) {
      if (one.row == row) return one.entries;
    }
  }
  return entries_per_row;
}

uint64_t BenchProfile::EntriesOfRows(uint64_t rows) const {
  uint64_t entries = rows * entries_per_row;
  if (long_rows) {
    for (const LongRow& one : kLongRows) {
      if (one.row < rows) entries = entries + one.entries - entries_per_row;
    }
  }
  return entries;
}

absl::StatusOr<BenchProfile> FindProfile(const std::string& name) {
  for (BenchProfile& profile : AllProfiles()) {
    if (profile.name == name) return std::move(profile);
  }
  return absl::InvalidArgumentError(absl::StrCat("there is no profile '", name, "'; there are ", ProfileNames()));
}

std::string ProfileNames() {
  return absl::StrJoin(AllProfiles(), ", ", [](std::string* out, const BenchProfile& p) { *out += p.name; });
}

}  // namespace widelane::cli
