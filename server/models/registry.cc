#include "server/models/registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "widelane/engine/errors.h"

namespace widelane {

namespace {

// What a caller sent, fit for a message.
std::string Quoted(absl::string_view text) {
  constexpr size_t kMost = 64;
  return absl::StrCat("'", absl::CHexEscape(text.substr(0, kMost)), text.size() > kMost ? "..." : "", "'");
}

}  // namespace

ServedModel::ServedModel(ModelFile file, ModelMetrics* metrics)
    : file_(std::move(file)), version_(absl::StrCat(file_.version)), metrics_(metrics) {}

void ServedModel::SetAvailable(std::shared_ptr<const LoadedModel> loaded) {
  loaded_ = std::move(loaded);
  if (loaded_ != nullptr) {
    for (const std::string& label : loaded_->model().labels()) {
      longest_label_ = std::max<uint64_t>(longest_label_, label.size());
    }
  }
  state_.store(ModelState::kAvailable, std::memory_order_release);
}

void ServedModel::SetFailed(absl::Status error) {
  error_ = std::move(error);
  state_.store(ModelState::kFailed, std::memory_order_release);
}

Registry::Registry(std::vector<std::unique_ptr<ServedModel>> models) : models_(std::move(models)) {
  for (const auto& model : models_) by_name_[model->file().name].push_back(model.get());
}

absl::StatusOr<const ServedModel*> Registry::Find(absl::string_view name, absl::string_view version) const {
  if (name.empty()) return FieldError("model", "is missing");
  const auto found = by_name_.find(name);
  const std::optional<uint64_t> number = ParseVersion(version);
  if (!version.empty() && !number.has_value()) {
    return FieldError("version",
                      absl::StrCat("is ", Quoted(version), ", it is a plain decimal number without leading zeros"));
  }
  if (found == by_name_.end()) return absl::NotFoundError(absl::StrCat("there is no model ", Quoted(name)));
  const std::vector<const ServedModel*>& versions = found->second;
  if (!number.has_value()) {
    const auto newest = std::find_if(versions.rbegin(), versions.rend(),
                                     [](const ServedModel* model) { return model->state() == ModelState::kAvailable; });
    return newest != versions.rend() ? *newest : versions.back();
  }
  for (const ServedModel* model : versions) {
    if (model->file().version == *number) return model;
  }
  return absl::NotFoundError(absl::StrCat("model ", Quoted(name), " has no version ", version));
}

absl::StatusOr<const ServedModel*> Registry::FindAvailable(absl::string_view name, absl::string_view version) const {
  absl::StatusOr<const ServedModel*> found = Find(name, version);
  if (!found.ok()) return found;
  const ServedModel& model = **found;
  switch (model.state()) {
    case ModelState::kAvailable:
      return found;
    case ModelState::kLoading:
      return absl::UnavailableError(absl::StrCat("model '", model.file().name, "' is loading"));
    case ModelState::kFailed:
      break;
  }
  return absl::FailedPreconditionError(absl::StrCat("model '", model.file().name, "' version ", model.version(),
                                                    " could not be loaded: ", model.error().message()));
}

size_t Registry::available() const {
  return static_cast<size_t>(std::count_if(models_.begin(), models_.end(),
                                           [](const auto& model) { return model->state() == ModelState::kAvailable; }));
}

}  // namespace widelane
