// Reads Rows and Array messages: views over bytes that stay where they are, and vectors for plain fields.

#ifndef WIDELANE_SERVER_FRONT_ROWS_READER_H_
#define WIDELANE_SERVER_FRONT_ROWS_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/io/coded_stream.h"
#include "server/config/config.h"
#include "server/front/field_reader.h"
#include "server/front/score_codec.h"
#include "widelane/engine/csr.h"

namespace widelane {

// INVALID_ARGUMENT: the bytes are not a message.
absl::Status Garbled(absl::string_view where);

// What reading needs, wherever in the message it is.
struct ReadContext {
  google::protobuf::io::CodedInputStream& in;
  const LimitsConfig& limits;
  TakeMemory take;
};

// An Array message, as far as it was given.
class ArrayReader {
 public:
  // `pieces` outlives the views.
  explicit ArrayReader(std::vector<ArrayPiece>& pieces) : pieces_(pieces) { pieces_.clear(); }

  bool present() const { return present_; }
  // Adds what the current field of `reader` says; other kinds of field are unknown ones, and skipped.
  absl::Status Add(ReadContext& context, FieldReader& reader);
  // The array, or `plain`, its plain form, if that has elements; absent if neither was given. `field` is what errors
  // name.
  absl::StatusOr<std::optional<TypedArray>> Get(const std::string& field, const std::string& plain_field,
                                                const TypedArray& plain) const;

 private:
  absl::Status AddPieces(ReadContext& context, int size);

  std::vector<ArrayPiece>& pieces_;
  bool present_ = false;
  uint64_t type_ = 0;
  uint64_t bytes_ = 0;
};

// Adds a plain field, packed or one element; stops behind `most` elements.
template <typename T>
absl::Status AddIntegers(ReadContext& context, FieldReader& reader, uint64_t most, std::vector<T>& out);

// A Rows message.
class RowsReader {
 public:
  // `name` is the field's ("rows"); `memory` outlives the views.
  RowsReader(const char* name, RowsMemory& memory);

  bool present() const { return present_; }
  absl::Status Add(ReadContext& context, FieldReader& reader);
  // Fills `csr`, all but what CheckShape checks.
  absl::Status Get(CsrView& csr) const;
  // As many rows as the offsets or lengths of `csr` speak of.
  static uint64_t CountRows(const CsrView& csr);

 private:
  absl::Status AddField(ReadContext& context, FieldReader& reader);

  const char* const name_;
  RowsMemory& memory_;
  ArrayReader indptr_;
  ArrayReader row_lengths_;
  ArrayReader indices_;
  ArrayReader values_;
  uint64_t features_ = 0;
  bool present_ = false;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_ROWS_READER_H_
