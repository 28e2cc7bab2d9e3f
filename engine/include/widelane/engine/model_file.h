// Model files: safetensors with our metadata. The format is described in engine/README.md.
//
// All functions may be called from any thread.

#ifndef WIDELANE_ENGINE_MODEL_FILE_H_
#define WIDELANE_ENGINE_MODEL_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "widelane/engine/model.h"

namespace widelane {

// Longest header that is read; a longer one is refused by this name.
inline constexpr uint64_t kMaxModelHeaderBytes = 100'000'000;

// Reads `path` into memory and checks it against its digest; the file may change or vanish afterwards.
// Errors: NOT_FOUND or PERMISSION_DENIED from the file system; DATA_LOSS for a file that shrinks while it is read or
// whose digest does not match; INVALID_ARGUMENT for anything else that is wrong with it. Messages name the path, the
// tensor or key, and the numbers that disagree. Nothing is allocated by a size the file claims before that size is
// checked against the file's own.
absl::StatusOr<std::shared_ptr<const Model>> ReadModelFile(const std::string& path);

// The same from memory; `name` stands for the path in messages. For fuzzing and tests.
absl::StatusOr<std::shared_ptr<const Model>> ReadModelBytes(const std::byte* data, size_t size,
                                                            const std::string& name);

// Writes `model` beside `path` under a temporary name, syncs it and renames it, so that a reader sees all or nothing.
absl::Status WriteModelFile(const Model& model, const std::string& path);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_MODEL_FILE_H_
