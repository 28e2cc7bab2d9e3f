// Walks the fields of one protobuf message in a stream, which may hand out its bytes in blocks of any size.

#ifndef WIDELANE_SERVER_FRONT_FIELD_READER_H_
#define WIDELANE_SERVER_FRONT_FIELD_READER_H_

#include <cstdint>

#include "google/protobuf/io/coded_stream.h"

namespace widelane {

// The message that begins where `in` stands, for as long as this lives: `in` ends with it.
class MessageScope {
 public:
  // `size` is no more than what is left of the message around it.
  MessageScope(google::protobuf::io::CodedInputStream& in, int size)
      : in_(in), outer_(in.PushLimit(size)), depth_left_(in.RecursionBudget()) {}
  // A group that is broken off leaves its depth behind, which is not that of what comes next.
  ~MessageScope() {
    in_.PopLimit(outer_);
    while (in_.RecursionBudget() < depth_left_) in_.DecrementRecursionDepth();
  }
  MessageScope(const MessageScope&) = delete;
  MessageScope& operator=(const MessageScope&) = delete;

 private:
  google::protobuf::io::CodedInputStream& in_;
  const google::protobuf::io::CodedInputStream::Limit outer_;
  const int depth_left_;
};

class FieldReader {
 public:
  enum class Kind : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  // Up to the end of the innermost MessageScope; there is one.
  explicit FieldReader(google::protobuf::io::CodedInputStream& in) : in_(in) {}

  // Goes to the next field; groups, and bytes nobody took, are skipped. False at the end, or where the bytes are not a
  // message: see broken().
  bool Next();
  bool broken() const { return broken_; }

  // Of the current field.
  uint32_t number() const { return number_; }
  Kind kind() const { return kind_; }
  bool Is(uint32_t number, Kind kind) const { return number_ == number && kind_ == kind; }
  uint64_t value() const { return value_; }  // of all kinds but kBytes
  // Of kBytes: how many there are. They are there; the caller reads all of them from the stream before Next.
  int TakeBytes();
  // Goes behind the current field's bytes, if nobody has taken them. False where there are not as many.
  bool SkipUntaken();

 private:
  bool ReadField(uint32_t tag);

  google::protobuf::io::CodedInputStream& in_;
  uint32_t number_ = 0;
  Kind kind_ = Kind::kVarint;
  uint64_t value_ = 0;
  int untaken_ = 0;  // bytes of the current field, until somebody takes them
  bool broken_ = false;
};

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_FIELD_READER_H_
