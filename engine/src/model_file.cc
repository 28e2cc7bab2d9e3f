#include "widelane/engine/model_file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "safetensors.h"

namespace widelane {

namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "widelane.linear";
constexpr char kFormatVersion[] = "1";

struct DtypeOf {
  WeightType type;
  const char* dtype;
};
constexpr DtypeOf kDtypes[] = {{WeightType::kFloat32, "F32"},
                               {WeightType::kFloat16, "F16"},
                               {WeightType::kBfloat16, "BF16"},
                               {WeightType::kInt8, "I8"}};
constexpr Link kLinks[] = {Link::kIdentity, Link::kSigmoid, Link::kSoftmax, Link::kOneVsRest, Link::kExp};

// What a hostile file put into a message, fit for logs and replies: printable, of bounded length.
std::string Printable(absl::string_view text) {
  constexpr size_t kLongest = 500;
  std::string printable;
  for (const char c : text.substr(0, kLongest)) {
    if (c >= 0x20 && c < 0x7F) {
      printable += c;
    } else {
      absl::StrAppend(&printable, "\\x", absl::Hex(static_cast<uint8_t>(c), absl::kZeroPad2));
    }
  }
  return printable;
}

// A status with the file in front.
absl::Status InFile(const std::string& name, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(name, ": ", Printable(status.message())));
}

absl::Status SystemError(const char* what) {
  const int error = errno;
  const std::string message = absl::StrCat(what, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }
  // Closes and tells whether that worked.
  bool Close() {
    const int fd = fd_;
    fd_ = -1;
    return close(fd) == 0;
  }

 private:
  int fd_;
};

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    ok_ = context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1;
  }
  void Add(const void* data, size_t size) { ok_ = ok_ && EVP_DigestUpdate(context_.get(), data, size) == 1; }
  // "sha256:" and 64 hexadecimal digits. INTERNAL when the library cannot compute it.
  absl::StatusOr<std::string> Digest() {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    ok_ = ok_ && EVP_DigestFinal_ex(context_.get(), bytes, &size) == 1;
    if (!ok_) return absl::InternalError("OpenSSL cannot compute a SHA-256 digest");
    return absl::StrCat("sha256:",
                        absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes), size)));
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
  bool ok_ = false;
};

// Where a model's bytes come from, read from front to back.
class Source {
 public:
  virtual ~Source() = default;
  virtual uint64_t size() const = 0;
  virtual absl::Status Read(void* out, uint64_t size) = 0;
};

class FileSource : public Source {
 public:
  FileSource(int fd, uint64_t size) : fd_(fd), size_(size) {}
  uint64_t size() const override { return size_; }
  absl::Status Read(void* out, uint64_t size) override {
    auto* to = static_cast<char*>(out);
    while (size > 0) {
      const ssize_t got = read(fd_, to, std::min<uint64_t>(size, 1 << 30));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return SystemError("cannot read");
      if (got == 0)
        return absl::DataLossError(absl::StrCat("the file ended ", size, " bytes early: it was cut while it was read"));
      to += got;
      size -= static_cast<uint64_t>(got);
    }
    return absl::OkStatus();
  }

 private:
  const int fd_;
  const uint64_t size_;
};

class MemorySource : public Source {
 public:
  MemorySource(const std::byte* data, uint64_t size) : data_(data), size_(size) {}
  uint64_t size() const override { return size_; }
  absl::Status Read(void* out, uint64_t size) override {
    if (size > 0) std::memcpy(out, data_ + position_, size);
    position_ += size;
    return absl::OkStatus();
  }

 private:
  const std::byte* const data_;
  const uint64_t size_;
  uint64_t position_ = 0;
};

// Metadata of one file, with errors that name the key.
class Metadata {
 public:
  explicit Metadata(const std::map<std::string, std::string>& entries) : entries_(entries) {}

  // Absent: `otherwise`.
  std::string Get(const std::string& key, const std::string& otherwise) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? otherwise : found->second;
  }
  static absl::Status Error(const std::string& key, const std::string& value, absl::string_view expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata '", key, "' is '", value.substr(0, 80), "', it must be ", expected));
  }

 private:
  const std::map<std::string, std::string>& entries_;
};

absl::Status ReadLabels(const std::string& text, std::vector<std::string>& labels) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool texts =
      json.is_array() && std::all_of(json.begin(), json.end(), [](const Json& j) { return j.is_string(); });
  // The parser takes a zero byte for the end.
  if (!texts || text.find('\0') != std::string::npos) return Metadata::Error("labels", text, "a JSON list of texts");
  labels = json.get<std::vector<std::string>>();
  return absl::OkStatus();
}

absl::Status ReadMetadata(const Metadata& metadata, ModelParts& parts) {
  const std::string format = metadata.Get("format", "");
  if (format != kFormat) return Metadata::Error("format", format, absl::StrCat("'", kFormat, "'"));
  const std::string version = metadata.Get("format_version", "");
  if (version != kFormatVersion)
    return Metadata::Error("format_version", version, absl::StrCat("'", kFormatVersion, "'"));

  const std::string link = metadata.Get("link", "");
  const auto* found = std::find_if(std::begin(kLinks), std::end(kLinks), [&](Link l) { return link == LinkName(l); });
  if (found == std::end(kLinks)) {
    return Metadata::Error("link", link, "identity, sigmoid, softmax, one_vs_rest or exp");
  }
  parts.link = *found;

  const std::string unknown = metadata.Get("unknown_features", "refuse");
  if (unknown != "refuse" && unknown != "ignore") {
    return Metadata::Error("unknown_features", unknown, "refuse or ignore");
  }
  parts.unknown_features = unknown == "ignore" ? UnknownFeatures::kIgnore : UnknownFeatures::kRefuse;

  const std::string tie = metadata.Get("tie", "negative");
  if (tie != "negative" && tie != "positive") return Metadata::Error("tie", tie, "negative or positive");
  parts.tie = tie == "positive" ? Tie::kPositive : Tie::kNegative;

  parts.source = metadata.Get("source", "");
  parts.digest = metadata.Get("digest", "");
  if (parts.digest.rfind("sha256:", 0) != 0 || parts.digest.size() != 71) {
    return Metadata::Error("digest", parts.digest, "'sha256:' and the 64 hexadecimal digits of all tensor bytes");
  }
  return ReadLabels(metadata.Get("labels", "[]"), parts.labels);
}

absl::Status ShapeError(const TensorEntry& tensor, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name, "': has ", tensor.shape.size(),
                                                 " dimensions of type ", tensor.dtype, ", it must be ", expected));
}

// Reads the tensors in file order into the model's parts, hashing all that is read.
class TensorReader {
 public:
  TensorReader(Source& source, ModelParts& parts) : source_(source), parts_(parts) {}

  absl::Status ReadAll(const std::vector<TensorEntry>& tensors) {
    bool has_weight = false;
    for (const TensorEntry& tensor : tensors) has_weight |= tensor.name == "weight";
    if (!has_weight) return absl::InvalidArgumentError("there is no tensor 'weight'");
    // The shape of the weights bounds the others, so it is looked at first, wherever it lies.
    for (const TensorEntry& tensor : tensors) {
      if (tensor.name != "weight") continue;
      if (absl::Status status = TakeShape(tensor); !status.ok()) return status;
    }
    bool has_bias = false;
    for (const TensorEntry& tensor : tensors) {
      if (absl::Status status = Check(tensor); !status.ok()) return status;
      has_bias |= tensor.name == "bias";
    }
    if (!has_bias) return absl::InvalidArgumentError("there is no tensor 'bias'");
    for (const TensorEntry& tensor : tensors) {
      if (absl::Status status = Read(tensor); !status.ok()) return status;
    }
    const absl::StatusOr<std::string> digest = hash_.Digest();
    if (!digest.ok()) return digest.status();
    if (*digest != parts_.digest) {
      return absl::DataLossError(
          absl::StrCat("the tensors' digest is ", *digest, ", the metadata says ", parts_.digest));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status TakeShape(const TensorEntry& tensor) {
    const auto* dtype =
        std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const DtypeOf& d) { return tensor.dtype == d.dtype; });
    const bool good_shape = tensor.shape.size() == 1 || tensor.shape.size() == 2;
    if (dtype == std::end(kDtypes) || !good_shape) {
      return ShapeError(tensor, "[features] or [features, outputs] of F32, F16, BF16 or I8");
    }
    const uint64_t outputs = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
    if (outputs == 0 || outputs > Model::kMaxOutputs) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor 'weight': ", outputs, " outputs, there may be 1 to ", Model::kMaxOutputs));
    }
    parts_.weight_type = dtype->type;
    parts_.features = tensor.shape[0];
    parts_.outputs = static_cast<uint32_t>(outputs);
    return absl::OkStatus();
  }

  bool IsPerOutput(const TensorEntry& tensor) const {
    return tensor.shape.size() == 1 && tensor.shape[0] == parts_.outputs;
  }

  absl::Status Check(const TensorEntry& tensor) const {
    if (tensor.name == "weight") return absl::OkStatus();
    if (tensor.name == "bias") {
      if (IsPerOutput(tensor) && (tensor.dtype == "F32" || tensor.dtype == "F64")) return absl::OkStatus();
      return ShapeError(tensor, absl::StrCat("[", parts_.outputs, "] (outputs) of F32 or F64"));
    }
    if (tensor.name == "scale") {
      if (IsPerOutput(tensor) && tensor.dtype == "F32") return absl::OkStatus();
      return ShapeError(tensor, absl::StrCat("[", parts_.outputs, "] (outputs) of F32"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", tensor.name, "' is unknown; there are weight, bias and scale"));
  }

  absl::Status ReadBytes(void* out, uint64_t size) {
    // In parts that stay in the cache between reading and hashing.
    constexpr uint64_t kPart = 1 << 20;
    auto* to = static_cast<std::byte*>(out);
    for (uint64_t done = 0; done < size;) {
      const uint64_t part = std::min(kPart, size - done);
      if (absl::Status status = source_.Read(to + done, part); !status.ok()) return status;
      hash_.Add(to + done, part);
      done += part;
    }
    return absl::OkStatus();
  }

  absl::Status Read(const TensorEntry& tensor) {
    const uint64_t bytes = tensor.end - tensor.begin;
    if (tensor.name == "weight") {
      absl::StatusOr<AlignedBuffer> weights =
          ModelParts::AllocateWeights(parts_.features, parts_.outputs, parts_.weight_type);
      if (!weights.ok()) return weights.status();
      parts_.weights = *std::move(weights);
      return ReadBytes(parts_.weights.data(), bytes);
    }
    if (tensor.name == "scale") {
      parts_.scale.resize(parts_.outputs);
      return ReadBytes(parts_.scale.data(), bytes);
    }
    parts_.bias.resize(parts_.outputs);
    if (tensor.dtype == "F64") return ReadBytes(parts_.bias.data(), bytes);
    std::vector<float> bias(parts_.outputs);
    if (absl::Status status = ReadBytes(bias.data(), bytes); !status.ok()) return status;
    std::copy(bias.begin(), bias.end(), parts_.bias.begin());
    return absl::OkStatus();
  }

  Source& source_;
  ModelParts& parts_;
  Sha256 hash_;
};

absl::StatusOr<std::shared_ptr<const Model>> ReadModel(Source& source) {
  std::byte prefix[kSafetensorsPrefix] = {};
  if (source.size() >= kSafetensorsPrefix) {
    if (absl::Status status = source.Read(prefix, sizeof(prefix)); !status.ok()) return status;
  }
  const absl::StatusOr<uint64_t> length = SafetensorsHeaderLength(prefix, source.size());
  if (!length.ok()) return length.status();
  std::string json(*length, '\0');
  if (absl::Status status = source.Read(json.data(), *length); !status.ok()) return status;
  const absl::StatusOr<SafetensorsHeader> header =
      ParseSafetensorsHeader(json, source.size() - kSafetensorsPrefix - *length);
  if (!header.ok()) return header.status();

  ModelParts parts;
  if (absl::Status status = ReadMetadata(Metadata(header->metadata), parts); !status.ok()) return status;
  if (absl::Status status = TensorReader(source, parts).ReadAll(header->tensors); !status.ok()) return status;
  return Model::Create(std::move(parts));
}

const char* DtypeName(WeightType type) {
  for (const DtypeOf& d : kDtypes) {
    if (d.type == type) return d.dtype;
  }
  return "?";
}

// One tensor to be written.
struct Block {
  const char* name;
  const char* dtype;
  std::vector<uint64_t> shape;
  const void* data;
  uint64_t bytes;
};

std::vector<Block> BlocksOf(const Model& model, const std::vector<float>& scale) {
  std::vector<uint64_t> shape = {model.features()};
  if (model.outputs() > 1) shape.push_back(model.outputs());
  const uint64_t weight_bytes = model.features() * model.outputs() * WeightSize(model.weight_type());
  // The widest elements first, so that all are aligned.
  std::vector<Block> blocks = {
      {"bias", "F64", {model.outputs()}, model.bias().data(), model.outputs() * sizeof(double)}};
  if (model.weight_type() == WeightType::kInt8) {
    blocks.push_back({"scale", "F32", {model.outputs()}, scale.data(), scale.size() * sizeof(float)});
  }
  blocks.push_back({"weight", DtypeName(model.weight_type()), shape, model.weights(), weight_bytes});
  return blocks;
}

absl::StatusOr<SafetensorsHeader> HeaderOf(const Model& model, const std::vector<Block>& blocks) {
  SafetensorsHeader header;
  Sha256 hash;
  uint64_t position = 0;
  for (const Block& block : blocks) {
    header.tensors.push_back({block.name, block.dtype, block.shape, position, position + block.bytes});
    position += block.bytes;
    hash.Add(block.data, block.bytes);
  }
  const absl::StatusOr<std::string> digest = hash.Digest();
  if (!digest.ok()) return digest.status();
  const std::string labels = Json(model.labels()).dump(-1, ' ', false, Json::error_handler_t::replace);
  if (Json::parse(labels) != Json(model.labels())) return absl::InvalidArgumentError("labels: one is not UTF-8 text");
  header.metadata = {{"format", kFormat},
                     {"format_version", kFormatVersion},
                     {"link", LinkName(model.link())},
                     {"labels", labels},
                     {"unknown_features", model.unknown_features() == UnknownFeatures::kIgnore ? "ignore" : "refuse"},
                     {"tie", model.tie() == Tie::kPositive ? "positive" : "negative"},
                     {"source", model.source()},
                     {"digest", *digest}};
  return header;
}

absl::Status WriteAll(int fd, const void* data, uint64_t size) {
  const auto* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t put = write(fd, from, std::min<uint64_t>(size, 1 << 30));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return SystemError("cannot write");
    from += put;
    size -= static_cast<uint64_t>(put);
  }
  return absl::OkStatus();
}

// Writes the whole file and closes it.
absl::Status WriteTo(FileDescriptor& file, const Model& model) {
  const std::vector<float> scale(model.scale().begin(), model.scale().end());
  const std::vector<Block> blocks = BlocksOf(model, scale);
  const absl::StatusOr<SafetensorsHeader> parts = HeaderOf(model, blocks);
  if (!parts.ok()) return parts.status();
  const std::string header = FormatSafetensorsHeader(*parts);
  if (absl::Status status = WriteAll(file.get(), header.data(), header.size()); !status.ok()) return status;
  for (const Block& block : blocks) {
    if (absl::Status status = WriteAll(file.get(), block.data, block.bytes); !status.ok()) return status;
  }
  constexpr mode_t kReadable = 0644;  // what people expect of a file; a temporary one is made private
  if (fchmod(file.get(), kReadable) != 0 || fsync(file.get()) != 0 || !file.Close()) return SystemError("cannot write");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Model>> ReadModelFile(const std::string& path) {
  // Without blocking: a pipe is refused below, not waited for.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return InFile(path, SystemError("cannot open"));
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) return InFile(path, SystemError("cannot read"));
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": is not a regular file"));
  FileSource source(file.get(), static_cast<uint64_t>(info.st_size));
  absl::StatusOr<std::shared_ptr<const Model>> model = ReadModel(source);
  if (!model.ok()) return InFile(path, model.status());
  return model;
}

absl::StatusOr<std::shared_ptr<const Model>> ReadModelBytes(const std::byte* data, size_t size,
                                                            const std::string& name) {
  MemorySource source(data, size);
  absl::StatusOr<std::shared_ptr<const Model>> model = ReadModel(source);
  if (!model.ok()) return InFile(name, model.status());
  return model;
}

absl::Status WriteModelFile(const Model& model, const std::string& path) {
  std::string temporary = path + ".XXXXXX";
  FileDescriptor file(mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return InFile(path, SystemError("cannot create"));
  absl::Status status = WriteTo(file, model);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = SystemError("cannot rename into place");
  if (!status.ok()) {
    unlink(temporary.c_str());
    return InFile(path, status);
  }
  return absl::OkStatus();
}

}  // namespace widelane
