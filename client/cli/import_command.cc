#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/command.h"
#include "client/cli/import_liblinear.h"
#include "widelane/engine/model_file.h"

namespace widelane::cli {
namespace {

constexpr size_t kLabelsShown = 10;

struct Options {
  std::string in;
  std::string out;
  std::string weight_type = WeightTypeName(WeightType::kFloat32);
};

// `name` is one that the command line takes.
WeightType WeightTypeOf(const std::string& name) {
  for (const WeightType type : {WeightType::kFloat16, WeightType::kBfloat16}) {
    if (name == WeightTypeName(type)) return type;
  }
  return WeightType::kFloat32;
}

std::string DescribeLabels(const Model& model) {
  const auto& labels = model.labels();
  if (labels.empty()) return "no labels";
  if (model.outputs() == 1) return absl::StrCat("labels ", labels[0], " (negative) and ", labels[1], " (positive)");
  const size_t shown = std::min(labels.size(), kLabelsShown);
  return absl::StrCat(labels.size(), " labels: ", absl::StrJoin(labels.begin(), labels.begin() + shown, " "),
                      shown < labels.size() ? " ..." : "");
}

absl::Status Import(const Options& options) {
  const auto model = ImportLiblinearFile(options.in, WeightTypeOf(options.weight_type));
  if (!model.ok()) return model.status();
  if (absl::Status status = WriteModelFile(**model, options.out); !status.ok()) return status;
  std::error_code ignored;
  std::cout << options.out << ": " << (*model)->features() << " features, " << (*model)->outputs()
            << ((*model)->outputs() == 1 ? " output, " : " outputs, ") << LinkName((*model)->link()) << ", "
            << DescribeLabels(**model) << ", " << WeightTypeName((*model)->weight_type()) << ", "
            << std::filesystem::file_size(options.out, ignored) << " bytes\n";
  return absl::OkStatus();
}

}  // namespace

void AddImportCommand(CLI::App& app, Run& run) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("import", "Makes a model file from another tool's model");
  command->require_subcommand(1);
  CLI::App* liblinear = command->add_subcommand("liblinear", "From a model that liblinear's train has written");
  liblinear->add_option("IN", options->in, "liblinear model, text")->required();
  liblinear->add_option("OUT", options->out, "Model file to write, NAME.safetensors")->required();
  liblinear->add_option("--weight-type", options->weight_type, "How weights are stored")
      ->check(CLI::IsMember({"float32", "float16", "bfloat16"}))
      ->capture_default_str();
  liblinear->callback([options, &run] { run = [options] { return Import(*options); }; });
}

}  // namespace widelane::cli
