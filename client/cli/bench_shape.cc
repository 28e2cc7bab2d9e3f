#include "client/cli/bench_shape.h"

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "widelane/engine/csr.h"
#include "widelane/engine/model.h"
#include "widelane/engine/route.h"

namespace widelane::cli {
namespace {

const std::vector<std::string> kWeightNames = {"float32", "float16", "bfloat16", "int8"};
const std::vector<std::string> kValueNames = {kValuesNames.begin(), kValuesNames.end()};

// `text` is one of `names`.
template <typename T>
T Choice(const std::vector<std::string>& names, const std::string& text) {
  return static_cast<T>(std::find(names.begin(), names.end(), text) - names.begin());
}

}  // namespace

absl::StatusOr<BenchProfile> ProfileOf(const BenchShape& shape) {
  absl::StatusOr<BenchProfile> found = FindProfile(shape.profile);
  if (!found.ok()) return found.status();
  BenchProfile profile = *std::move(found);
  profile.features = shape.features.value_or(profile.features);
  profile.entries_per_row = shape.entries_per_row.value_or(profile.entries_per_row);
  profile.context = std::min(profile.context, profile.entries_per_row);
  profile.outputs = shape.outputs.value_or(profile.outputs);
  profile.best = std::min(shape.best.value_or(profile.best), profile.outputs);
  if (!shape.weights.empty()) profile.weights = Choice<WeightType>(kWeightNames, shape.weights);
  if (!shape.values.empty()) profile.values = Choice<Values>(kValueNames, shape.values);
  if (shape.zipf == "uniform") {
    profile.zipf = 0;
  } else if (!shape.zipf.empty() &&
             (!absl::SimpleAtod(shape.zipf, &profile.zipf) || !(profile.zipf >= 0 && profile.zipf <= 10))) {
    return absl::InvalidArgumentError(
        absl::StrCat("zipf: '", shape.zipf, "' is neither 'uniform' nor a number from 0 to 10"));
  }
  return profile;
}

void AddShapeOptions(CLI::App& command, BenchShape& shape) {
  command.add_option("--profile", shape.profile, absl::StrCat("Model and rows: ", ProfileNames()))
      ->capture_default_str();
  command.add_option("--features", shape.features, "Instead of the profile's")
      ->check(CLI::Range(uint64_t{1}, Model::kMaxFeatures));
  command.add_option("--entries-per-row", shape.entries_per_row, "Instead of the profile's")
      ->check(CLI::Range(uint64_t{0}, kMaxRowEntries));
  command.add_option("--outputs", shape.outputs, "Instead of the profile's")
      ->check(CLI::Range(uint64_t{1}, Model::kMaxOutputs));
  command.add_option("--best", shape.best, "Outputs wanted of each row, instead of the profile's; 0: all")
      ->check(CLI::Range(0U, kMaxBest));
  command.add_option("--weights", shape.weights, "Type of the weights, instead of the profile's")
      ->check(CLI::IsMember(kWeightNames));
  command.add_option("--values", shape.values, "Values of the entries, instead of the profile's")
      ->check(CLI::IsMember(kValueNames));
  command.add_option("--zipf", shape.zipf, "Exponent with which features become rarer, or 'uniform'");
  command.add_option("--seed", shape.seed, "Of everything random")->capture_default_str();
}

}  // namespace widelane::cli
