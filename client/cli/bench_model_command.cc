#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/bench_commands.h"
#include "client/cli/bench_data.h"
#include "client/cli/bench_shape.h"
#include "widelane/engine/model_file.h"

namespace widelane::cli {
namespace {

struct Arguments {
  BenchShape shape;
  std::string link = LinkName(Link::kSigmoid);
  std::string file;
};

// The engine knows which links a model may have; it is asked when the model is made. `name` is one of these.
Link LinkOf(const std::string& name) {
  for (const Link link : {Link::kIdentity, Link::kSoftmax, Link::kOneVsRest, Link::kExp}) {
    if (name == LinkName(link)) return link;
  }
  return Link::kSigmoid;
}

absl::Status BenchModel(const Arguments& arguments) {
  std::error_code problem;
  if (std::filesystem::exists(arguments.file, problem)) {
    return absl::AlreadyExistsError(absl::StrCat(arguments.file, " exists, and is not overwritten"));
  }
  const absl::StatusOr<BenchProfile> profile = ProfileOf(arguments.shape);
  if (!profile.ok()) return profile.status();
  const auto model = MakeModel(*profile, arguments.shape.seed, LinkOf(arguments.link));
  if (!model.ok()) return model.status();
  if (absl::Status status = WriteModelFile(**model, arguments.file); !status.ok()) return status;
  std::cout << arguments.file << ": " << (*model)->features() << " features x " << (*model)->outputs() << " outputs, "
            << WeightTypeName((*model)->weight_type()) << ", " << std::filesystem::file_size(arguments.file, problem)
            << " bytes\n";
  return absl::OkStatus();
}

}  // namespace

void AddBenchModelCommand(CLI::App& bench, Run& run) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = bench.add_subcommand("model", "Writes the model of a profile, for a server to serve");
  AddShapeOptions(*command, arguments->shape);
  command->add_option("--link", arguments->link, "What turns sums into scores")
      ->check(CLI::IsMember({"identity", "sigmoid", "softmax", "one_vs_rest", "exp"}))
      ->capture_default_str();
  command->add_option("FILE", arguments->file, "Model file to write, NAME.safetensors")->required();
  command->callback([arguments, &run] { run = [arguments] { return BenchModel(*arguments); }; });
}

}  // namespace widelane::cli
