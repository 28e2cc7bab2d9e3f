// Finds model files: <repository>/<model>/<version>/model.safetensors, and files named one by one.

#ifndef WIDELANE_SERVER_MODELS_REPOSITORY_H_
#define WIDELANE_SERVER_MODELS_REPOSITORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/config/config.h"

namespace widelane {

struct ModelFile {
  std::string name;
  uint64_t version = 1;
  std::string path;
};

// 1 to 128 of A-Z a-z 0-9 . _ - and not beginning with a dot.
bool IsModelName(absl::string_view name);

// A plain decimal number from 0 to 2^63 - 1, without sign or leading zeros. Absent for anything else.
std::optional<uint64_t> ParseVersion(absl::string_view text);

// All files that are to be served, by name and version. Entries of the repository that are neither model nor version
// are passed over; those that look like a mistake are told of in `warnings`. Nothing is read but folders. Errors:
// NOT_FOUND or the like when the repository cannot be listed, INVALID_ARGUMENT for a model that is given twice.
absl::StatusOr<std::vector<ModelFile>> FindModels(const ModelsConfig& config, std::vector<std::string>& warnings);

}  // namespace widelane

#endif  // WIDELANE_SERVER_MODELS_REPOSITORY_H_
