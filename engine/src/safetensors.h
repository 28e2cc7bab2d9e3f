// The safetensors container: a JSON header over one block of tensor bytes. Trusts nothing the header says.
//
// Format: https://github.com/huggingface/safetensors (8 bytes little-endian header length, JSON, tensors without gaps).

#ifndef WIDELANE_ENGINE_SRC_SAFETENSORS_H_
#define WIDELANE_ENGINE_SRC_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace widelane {

inline constexpr uint64_t kSafetensorsPrefix = 8;

struct TensorEntry {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // in the tensor block
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<TensorEntry> tensors;  // in order of their ranges, which follow one another from 0 without gaps
};

// The header's length from the file's first 8 bytes, checked against the file's size and kMaxModelHeaderBytes.
absl::StatusOr<uint64_t> SafetensorsHeaderLength(const std::byte* prefix, uint64_t file_size);

// Parses and checks the header of a file whose tensor block has `block_size` bytes. Errors: INVALID_ARGUMENT.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json, uint64_t block_size);

// The first bytes of a file: length and header, padded with spaces to a multiple of 8.
std::string FormatSafetensorsHeader(const SafetensorsHeader& header);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_SAFETENSORS_H_
