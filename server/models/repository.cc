#include "server/models/repository.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace widelane {

namespace {

namespace fs = std::filesystem;
constexpr size_t kMostNameBytes = 128;
constexpr char kModelFile[] = "model.safetensors";

bool IsDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

absl::StatusOr<std::vector<fs::path>> FoldersIn(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> folders;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) folders.push_back(it->path());
  }
  if (error) {
    return absl::NotFoundError(
        absl::StrCat("the model repository folder ", folder.string(), " cannot be listed: ", error.message()));
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

absl::Status AddVersions(const fs::path& folder, bool all, std::vector<ModelFile>& files,
                         std::vector<std::string>& warnings) {
  const auto folders = FoldersIn(folder);
  if (!folders.ok()) return folders.status();
  const std::string name = folder.filename().string();
  std::vector<ModelFile> found;
  for (const fs::path& path : *folders) {
    const std::string text = path.filename().string();
    const std::optional<uint64_t> version = ParseVersion(text);
    if (!version.has_value()) {
      if (IsDigits(text))
        warnings.push_back(
            absl::StrCat(path.string(), " is passed over: a version is a plain number without leading zeros"));
      continue;
    }
    std::error_code error;
    const fs::path file = path / kModelFile;
    if (!fs::exists(file, error)) {
      warnings.push_back(absl::StrCat(path.string(), " is passed over: it has no ", kModelFile));
      continue;
    }
    found.push_back({name, *version, file.string()});
  }
  if (found.empty()) {
    warnings.push_back(absl::StrCat(folder.string(), " holds no version of a model"));
    return absl::OkStatus();
  }
  std::sort(found.begin(), found.end(), [](const ModelFile& a, const ModelFile& b) { return a.version < b.version; });
  files.insert(files.end(), all ? found.begin() : found.end() - 1, found.end());
  return absl::OkStatus();
}

absl::Status AddRepository(const ModelsConfig& config, std::vector<ModelFile>& files,
                           std::vector<std::string>& warnings) {
  const auto folders = FoldersIn(config.repository);
  if (!folders.ok()) return folders.status();
  for (const fs::path& folder : *folders) {
    const std::string name = folder.filename().string();
    if (!IsModelName(name)) {
      if (name[0] != '.')
        warnings.push_back(
            absl::StrCat(folder.string(), " is passed over: it is no name for a model (A-Z a-z 0-9 . _ -)"));
      continue;
    }
    if (absl::Status status = AddVersions(folder, config.all_versions, files, warnings); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

bool IsModelName(absl::string_view name) {
  if (name.empty() || name.size() > kMostNameBytes || name[0] == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

std::optional<uint64_t> ParseVersion(absl::string_view text) {
  constexpr size_t kMostDigits = 19;
  if (!IsDigits(text) || text.size() > kMostDigits || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  int64_t version = 0;
  if (!absl::SimpleAtoi(text, &version)) return std::nullopt;
  return static_cast<uint64_t>(version);
}

absl::StatusOr<std::vector<ModelFile>> FindModels(const ModelsConfig& config, std::vector<std::string>& warnings) {
  std::vector<ModelFile> files;
  if (!config.repository.empty()) {
    if (absl::Status status = AddRepository(config, files, warnings); !status.ok()) return status;
  }
  for (const ModelSource& source : config.models) files.push_back({source.name, 1, source.file});
  const auto key = [](const ModelFile& file) { return std::tie(file.name, file.version); };
  std::sort(files.begin(), files.end(), [&key](const ModelFile& a, const ModelFile& b) { return key(a) < key(b); });
  const auto twice = std::adjacent_find(files.begin(), files.end(),
                                        [&key](const ModelFile& a, const ModelFile& b) { return key(a) == key(b); });
  if (twice != files.end()) {
    return absl::InvalidArgumentError(absl::StrCat("model ", twice->name, " version ", twice->version,
                                                   " is given twice: ", twice->path, " and ", (twice + 1)->path));
  }
  return files;
}

}  // namespace widelane
