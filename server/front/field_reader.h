// Walks the fields of one protobuf message that lies in memory in one piece, without copying.

#ifndef WIDELANE_SERVER_FRONT_FIELD_READER_H_
#define WIDELANE_SERVER_FRONT_FIELD_READER_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "google/protobuf/io/coded_stream.h"

namespace widelane {

class FieldReader {
 public:
  enum class Kind : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  // `message` is shorter than 2^31 bytes and outlives the reader.
  explicit FieldReader(absl::string_view message);

  // Goes to the next field (groups are skipped). False at the end, or where the bytes are not a message: see broken().
  bool Next();
  bool broken() const { return broken_; }

  // Of the current field.
  uint32_t number() const { return number_; }
  Kind kind() const { return kind_; }
  bool Is(uint32_t number, Kind kind) const { return number_ == number && kind_ == kind; }
  uint64_t value() const { return value_; }           // of all kinds but kBytes
  absl::string_view bytes() const { return bytes_; }  // of kBytes

 private:
  bool ReadField(uint32_t tag);
  bool ReadBytes();

  google::protobuf::io::CodedInputStream in_;
  uint32_t number_ = 0;
  Kind kind_ = Kind::kVarint;
  uint64_t value_ = 0;
  absl::string_view bytes_;
  bool broken_ = false;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_FIELD_READER_H_
