// The models the server knows, and the state of each.
//
// The set is fixed when the registry is made; each model goes once from LOADING to AVAILABLE or FAILED. Lookups take no
// lock.

#ifndef WIDELANE_SERVER_MODELS_REGISTRY_H_
#define WIDELANE_SERVER_MODELS_REGISTRY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/models/repository.h"
#include "widelane/engine/engine.h"

namespace widelane {

struct ModelMetrics;  // observe/metrics.h

enum class ModelState : uint8_t { kLoading, kAvailable, kFailed };

class ServedModel {
 public:
  ServedModel(ModelFile file, ModelMetrics* metrics);

  const ModelFile& file() const { return file_; }
  const std::string& version() const { return version_; }
  ModelMetrics* metrics() const { return metrics_; }
  ModelState state() const { return state_.load(std::memory_order_acquire); }
  // Only when available.
  const std::shared_ptr<const LoadedModel>& loaded() const { return loaded_; }
  uint64_t longest_label() const { return longest_label_; }  // bytes
  // Only when failed.
  const absl::Status& error() const { return error_; }

  // By one thread, once.
  void SetAvailable(std::shared_ptr<const LoadedModel> loaded);
  void SetFailed(absl::Status error);

 private:
  const ModelFile file_;
  const std::string version_;
  ModelMetrics* const metrics_;
  std::atomic<ModelState> state_{ModelState::kLoading};
  std::shared_ptr<const LoadedModel> loaded_;
  uint64_t longest_label_ = 0;
  absl::Status error_;
};

class Registry {
 public:
  // `models` are in order of name and version.
  explicit Registry(std::vector<std::unique_ptr<ServedModel>> models);

  const std::vector<std::unique_ptr<ServedModel>>& models() const { return models_; }

  // The model of that name and version, in whatever state; version empty: the newest that is available, else the
  // newest. Errors: NOT_FOUND, INVALID_ARGUMENT for a version that is no plain number.
  absl::StatusOr<const ServedModel*> Find(absl::string_view name, absl::string_view version) const;
  // The same, and it is available. Errors: UNAVAILABLE while it loads, FAILED_PRECONDITION with the reason when it has
  // failed.
  absl::StatusOr<const ServedModel*> FindAvailable(absl::string_view name, absl::string_view version) const;

  size_t available() const;

 private:
  const std::vector<std::unique_ptr<ServedModel>> models_;
  absl::flat_hash_map<std::string, std::vector<const ServedModel*>> by_name_;  // versions rising
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_MODELS_REGISTRY_H_
