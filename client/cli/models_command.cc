#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/command.h"
#include "client/cli/table.h"

namespace widelane::cli {
namespace {

using client::ModelInfo;

struct Options {
  ServerOptions server;
  bool json = false;
};

void PrintTable(const std::vector<ModelInfo>& models) {
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "VERSION", "STATE", "FEATURES", "OUTPUTS", "LINK", "WEIGHTS", "DEVICES"}};
  for (const ModelInfo& model : models) {
    if (model.state == ModelInfo::State::kAvailable) {
      rows.push_back({model.name, model.version, StateName(model.state), absl::StrCat(model.features),
                      absl::StrCat(model.outputs), model.link, model.weight_type, absl::StrJoin(model.devices, ",")});
    } else {
      rows.push_back({model.name, model.version, StateName(model.state), "-", "-", "-", "-", model.error});
    }
  }
  std::cout << FormatTable(rows);
}

void PrintJson(const std::vector<ModelInfo>& models) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ModelInfo& model : models) {
    list.push_back({{"name", model.name},
                    {"version", model.version},
                    {"state", StateName(model.state)},
                    {"error", model.error},
                    {"features", model.features},
                    {"outputs", model.outputs},
                    {"link", model.link},
                    {"labels", model.labels},
                    {"weight_type", model.weight_type},
                    {"has_probabilities", model.has_probabilities},
                    {"ignores_unknown_features", model.ignores_unknown_features},
                    {"source", model.source},
                    {"digest", model.digest},
                    {"devices", model.devices},
                    {"max_message_bytes", model.max_message_bytes},
                    {"max_rows", model.max_rows},
                    {"max_entries", model.max_entries}});
  }
  std::cout << list.dump(2) << '\n';
}

absl::Status PrintModels(const Options& options) {
  const auto client = Connect(options.server);
  if (!client.ok()) return client.status();
  const auto models = (*client)->ListModels();
  if (!models.ok()) return models.status();
  if (options.json) {
    PrintJson(*models);
  } else {
    PrintTable(*models);
  }
  return absl::OkStatus();
}

}  // namespace

void AddModelsCommand(CLI::App& app, Run& run) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("models", "Lists the models a server has");
  AddServerOptions(*command, options->server);
  command->add_flag("--json", options->json, "Print JSON instead of a table");
  command->callback([options, &run] { run = [options] { return PrintModels(*options); }; });
}

}  // namespace widelane::cli
