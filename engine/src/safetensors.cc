#include "safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "widelane/engine/model_file.h"

namespace widelane {

namespace {

using Json = nlohmann::json;

// More than any model has; they bound what a hostile header makes us keep.
constexpr size_t kMaxTensors = 16;
constexpr size_t kMaxMetadata = 64;

// Bytes of one element; 0 for a type the format does not have.
uint64_t DtypeSize(const std::string& dtype) {
  static const std::map<std::string, uint64_t> kSizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"U16", 2}, {"I16", 2}, {"F16", 2},
      {"BF16", 2}, {"U32", 4}, {"I32", 4}, {"F32", 4},     {"U64", 8},     {"I64", 8}, {"F64", 8}};
  const auto found = kSizes.find(dtype);
  return found == kSizes.end() ? 0 : found->second;
}

absl::Status TensorError(const std::string& name, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "': ", problem));
}

// Fills a header while the parser reads, so that nothing nested, repeated or unexpected is ever built.
//
// The only shape allowed is {name: {"dtype": text, "shape": [numbers], "data_offsets": [two numbers]}, ...,
// "__metadata__": {text: text}}.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  const std::string& problem() const { return problem_; }
  SafetensorsHeader& header() { return header_; }

  bool null() override { return Refuse("null is not expected"); }
  bool boolean(bool /*value*/) override { return Refuse("a boolean is not expected"); }
  bool number_float(number_float_t /*value*/, const string_t& text) override {
    return Refuse(absl::StrCat("number ", text.substr(0, 40), " is not a whole number"));
  }
  bool binary(binary_t& /*value*/) override { return Refuse("binary is not expected"); }
  bool number_integer(number_integer_t value) override {
    return Refuse(absl::StrCat("number ", value, " is negative or out of place"));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (list_ == nullptr) return Refuse(absl::StrCat("number ", value, " is out of place"));
    // More dimensions than any model has; bounds what a hostile header makes us keep.
    if (list_->size() == 8) return Refuse("a list has more than 8 numbers");
    list_->push_back(value);
    return true;
  }
  bool string(string_t& value) override {
    if (list_ != nullptr) return Refuse("text inside a list of numbers");
    if (depth_ == 2 && in_metadata_) {
      if (header_.metadata.size() == kMaxMetadata) return Refuse("metadata has more than 64 keys");
      header_.metadata[key_] = value;
      return true;
    }
    if (depth_ == 2 && key_ == "dtype") {
      header_.tensors.back().dtype = value;
      return true;
    }
    return Refuse(absl::StrCat("text at '", key_, "' is out of place"));
  }
  bool start_object(std::size_t /*elements*/) override {
    if (depth_ == 2 || list_ != nullptr) return Refuse("an object is nested too deep");
    ++depth_;
    seen_.clear();
    if (depth_ == 1) return true;
    in_metadata_ = name_ == "__metadata__";
    if (!in_metadata_) {
      if (header_.tensors.size() == kMaxTensors) return Refuse("there are more than 16 tensors");
      header_.tensors.emplace_back();
      header_.tensors.back().name = name_;
      offsets_.clear();
    }
    return true;
  }
  bool end_object() override {
    if (depth_ == 2 && !in_metadata_ && !CloseTensor()) return false;
    --depth_;
    return true;
  }
  bool start_array(std::size_t /*elements*/) override {
    if (depth_ != 2 || in_metadata_ || list_ != nullptr) return Refuse("a list is out of place");
    if (key_ == "shape") {
      list_ = &header_.tensors.back().shape;
    } else if (key_ == "data_offsets") {
      list_ = &offsets_;
    } else {
      return Refuse(absl::StrCat("a list at '", key_, "' is out of place"));
    }
    return true;
  }
  bool end_array() override {
    list_ = nullptr;
    return true;
  }
  bool key(string_t& value) override {
    if (depth_ == 1) {
      name_ = value;
      if (!names_.insert(value).second) return Refuse(absl::StrCat("'", value, "' comes twice"));
      return true;
    }
    key_ = value;
    if (!seen_.insert(value).second) return Refuse(absl::StrCat("'", value, "' comes twice in '", name_, "'"));
    if (!in_metadata_ && value != "dtype" && value != "shape" && value != "data_offsets") {
      return Refuse(absl::StrCat("'", value, "' in tensor '", name_, "' is unknown"));
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    return Refuse(absl::StrCat("not JSON at byte ", position, ": ", std::string(error.what()).substr(0, 200)));
  }

 private:
  bool Refuse(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
    return false;
  }

  bool CloseTensor() {
    if (seen_.size() != 3) return Refuse(absl::StrCat("tensor '", name_, "' lacks dtype, shape or data_offsets"));
    if (offsets_.size() != 2) {
      return Refuse(absl::StrCat("tensor '", name_, "' has ", offsets_.size(), " data_offsets, there are 2"));
    }
    header_.tensors.back().begin = offsets_[0];
    header_.tensors.back().end = offsets_[1];
    return true;
  }

  SafetensorsHeader header_;
  std::string problem_;
  int depth_ = 0;
  bool in_metadata_ = false;
  std::string name_;  // key at depth 1
  std::string key_;   // key at depth 2
  std::set<std::string> names_;
  std::set<std::string> seen_;
  std::vector<uint64_t> offsets_;
  std::vector<uint64_t>* list_ = nullptr;
};

// Bytes the shape and type make, or an error when they overflow or the type is unknown.
absl::StatusOr<uint64_t> ShapeBytes(const TensorEntry& tensor) {
  const uint64_t size = DtypeSize(tensor.dtype);
  if (size == 0) return TensorError(tensor.name, absl::StrCat("unknown dtype '", tensor.dtype.substr(0, 40), "'"));
  uint64_t bytes = size;
  for (const uint64_t dimension : tensor.shape) {
    if (__builtin_mul_overflow(bytes, dimension, &bytes))
      return TensorError(tensor.name, "its shape overflows 64 bits");
  }
  return bytes;
}

absl::Status CheckRanges(std::vector<TensorEntry>& tensors, uint64_t block_size) {
  for (const TensorEntry& tensor : tensors) {
    if (tensor.end < tensor.begin || tensor.end > block_size) {
      return TensorError(tensor.name, absl::StrCat("data_offsets [", tensor.begin, ", ", tensor.end,
                                                   "] do not lie in the ", block_size, " bytes of tensors"));
    }
    const absl::StatusOr<uint64_t> bytes = ShapeBytes(tensor);
    if (!bytes.ok()) return bytes.status();
    if (*bytes != tensor.end - tensor.begin) {
      return TensorError(tensor.name, absl::StrCat("its shape takes ", *bytes, " bytes, its data_offsets hold ",
                                                   tensor.end - tensor.begin));
    }
  }
  std::sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  uint64_t expected = 0;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.begin != expected) {
      return TensorError(tensor.name, absl::StrCat("begins at byte ", tensor.begin, ", the tensor before it ends at ",
                                                   expected, "; tensors follow one another without gaps"));
    }
    expected = tensor.end;
  }
  if (expected != block_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tensors end at byte ", expected, " of ", block_size, ": trailing bytes"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> SafetensorsHeaderLength(const std::byte* prefix, uint64_t file_size) {
  if (file_size < kSafetensorsPrefix) {
    return absl::InvalidArgumentError(absl::StrCat("the file has ", file_size, " bytes, too few for a header length"));
  }
  uint64_t length = 0;
  std::memcpy(&length, prefix, sizeof(length));
  if (length > kMaxModelHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("header length ", length, " is above the limit of ",
                                                   kMaxModelHeaderBytes, "; is this a safetensors file?"));
  }
  if (length > file_size - kSafetensorsPrefix) {
    return absl::InvalidArgumentError(absl::StrCat("header length ", length, " is more than the ",
                                                   file_size - kSafetensorsPrefix, " bytes behind it"));
  }
  return length;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json, uint64_t block_size) {
  if (json.empty() || json[0] != '{') return absl::InvalidArgumentError("the header does not begin with '{'");
  // The parser takes a zero byte for the end and would not look at what follows.
  if (absl::StrContains(json, '\0')) return absl::InvalidArgumentError("header: not JSON: holds a zero byte");
  HeaderReader reader;
  const bool parsed = Json::sax_parse(json.begin(), json.end(), &reader);
  if (!parsed) return absl::InvalidArgumentError(absl::StrCat("header: ", reader.problem()));
  SafetensorsHeader header = std::move(reader.header());
  if (absl::Status status = CheckRanges(header.tensors, block_size); !status.ok()) return status;
  return header;
}

std::string FormatSafetensorsHeader(const SafetensorsHeader& header) {
  Json json = Json::object();
  json["__metadata__"] = header.metadata;
  for (const TensorEntry& tensor : header.tensors) {
    json[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, tensor.end}}};
  }
  // Replaces what is not UTF-8 (a source may be anything) rather than throw.
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  std::string bytes(kSafetensorsPrefix, '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + text;
}

}  // namespace widelane
