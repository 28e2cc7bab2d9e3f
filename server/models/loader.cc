#include "server/models/loader.h"

#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <utility>

#include "server/models/cost_table.h"
#include "widelane/engine/model_file.h"

namespace widelane {

namespace {

using std::chrono::steady_clock;

absl::StatusOr<std::shared_ptr<const LoadedModel>> Load(const std::string& path, Engine& engine) {
  auto model = ReadModelFile(path);
  if (!model.ok()) return model.status();
  return engine.Load(*std::move(model));
}

}  // namespace

Loader::Loader(Registry& registry, Engine& engine, Metrics& metrics, ServerState& state)
    : registry_(registry), engine_(engine), metrics_(metrics), state_(state), thread_([this] { Run(); }) {}

Loader::~Loader() {
  Stop();
  thread_.join();
}

void Loader::Run() {
  for (const auto& model : registry_.models()) {
    if (stop_) return;
    const steady_clock::time_point begin = steady_clock::now();
    LoadOne(*model);
    const std::chrono::nanoseconds time = steady_clock::now() - begin;
    if (model->state() == ModelState::kAvailable) LogLoaded(*model, time);
    metrics_.OnModelState(*model, engine_.devices(), time);
    state_.SetModelsAvailable(registry_.available());
  }
  if (stop_) return;
  state_.SetLoaded();
  const size_t available = registry_.available();
  const size_t failed = registry_.models().size() - available;
  if (failed > 0) spdlog::warn("{} of {} models could not be loaded", failed, registry_.models().size());
  if (available > 0) {
    spdlog::info("ready: {} models", available);
  } else {
    spdlog::error("not ready: no model is available");
  }
}

void Loader::LoadOne(ServedModel& served) {
  const ModelFile& file = served.file();
  auto loaded = Load(file.path, engine_);
  if (!loaded.ok()) {
    spdlog::error("model {} version {} could not be loaded: {}", file.name, file.version,
                  std::string(loaded.status().message()));
    served.SetFailed(loaded.status());
    return;
  }
  served.SetAvailable(*std::move(loaded));
}

void Loader::LogLoaded(const ServedModel& served, std::chrono::nanoseconds time) const {
  const LoadedModel& loaded = *served.loaded();
  const Model& model = loaded.model();
  const ModelFile& file = served.file();
  spdlog::info("model {} version {}: {} features, {} outputs, {}, {} weights{}, loaded in {} ms", file.name,
               file.version, model.features(), model.outputs(), LinkName(model.link()),
               WeightTypeName(model.weight_type()), loaded.sharded() ? " cut over the GPUs" : "",
               std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
  for (const std::string& line : CostTableLines(loaded.costs(), engine_.devices())) spdlog::info("{}", line);
}

}  // namespace widelane
