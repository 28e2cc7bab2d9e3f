#include <iostream>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/command.h"
#include "client/cli/table.h"
#include "widelane/engine/model_file.h"

namespace widelane::cli {
namespace {

absl::Status Inspect(const std::string& path) {
  const auto read = ReadModelFile(path);
  if (!read.ok()) return read.status();
  const Model& model = **read;
  std::vector<std::vector<std::string>> rows = {
      {"features", absl::StrCat(model.features())},
      {"outputs", absl::StrCat(model.outputs())},
      {"link", LinkName(model.link())},
      {"labels", model.labels().empty() ? "none" : absl::StrJoin(model.labels(), " ")},
      {"weights", absl::StrCat(WeightTypeName(model.weight_type()), ", ", model.weight_bytes(), " bytes")},
      {"largest weight", absl::StrCat(model.max_weight())},
      {"unknown features", model.unknown_features() == UnknownFeatures::kIgnore ? "ignored" : "refused"},
      {"probabilities", model.has_probabilities() ? "yes" : "no"},
      {"source", model.source()},
      {"digest", model.digest()}};
  std::cout << FormatTable(rows);
  return absl::OkStatus();
}

}  // namespace

void AddInspectCommand(CLI::App& app, Run& run) {
  auto path = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("inspect", "Checks a model file and shows what is in it");
  command->add_option("FILE", *path, "Model file")->required();
  command->callback([path, &run] { run = [path] { return Inspect(*path); }; });
}

}  // namespace widelane::cli
