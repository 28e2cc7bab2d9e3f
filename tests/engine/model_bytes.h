// Model files made by hand, for tests that want them wrong.

#ifndef WIDELANE_TESTS_ENGINE_MODEL_BYTES_H_
#define WIDELANE_TESTS_ENGINE_MODEL_BYTES_H_

#include <openssl/sha.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace widelane::test {

template <typename T>
std::string BytesOf(const std::vector<T>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
}

// Header length, header, tensors: as the caller says, whether they fit or not.
inline std::string FileBytes(uint64_t length, const std::string& header, const std::string& tensors) {
  return BytesOf(std::vector<uint64_t>{length}) + header + tensors;
}
inline std::string FileBytes(const std::string& header, const std::string& tensors) {
  return FileBytes(header.size(), header, tensors);
}

inline std::string DigestOf(const std::string& tensors) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(tensors.data()), tensors.size(), digest);
  return "sha256:" + absl::BytesToHexString(std::string(reinterpret_cast<char*>(digest), sizeof(digest)));
}

// A `__metadata__` member for `tensors`; `more` is appended to it.
inline std::string MetadataFor(const std::string& tensors, const std::string& link = "identity",
                               const std::string& more = "") {
  return absl::StrCat(R"("__metadata__":{"format":"widelane.linear","format_version":"1","link":")", link,
                      R"(","digest":")", DigestOf(tensors), "\"", more, "}");
}

inline std::string TensorMember(const std::string& name, const std::string& dtype, const std::string& shape,
                                const std::string& offsets) {
  return absl::StrCat("\"", name, R"(":{"dtype":")", dtype, R"(","shape":)", shape, R"(,"data_offsets":)", offsets,
                      "}");
}

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_ENGINE_MODEL_BYTES_H_
