#include "server/front/field_reader.h"

#include <climits>

#include "google/protobuf/wire_format_lite.h"

namespace widelane {

namespace {
constexpr uint32_t kStartGroup = 3;
}  // namespace

FieldReader::FieldReader(absl::string_view message)
    : in_(reinterpret_cast<const uint8_t*>(message.data()), static_cast<int>(message.size())) {}

bool FieldReader::Next() {
  while (!broken_) {
    const uint32_t tag = in_.ReadTag();
    if (tag == 0) {
      broken_ = !in_.ConsumedEntireMessage();
      return false;
    }
    if ((tag & 7) == kStartGroup) {
      broken_ = !google::protobuf::internal::WireFormatLite::SkipField(&in_, tag);
      continue;
    }
    broken_ = !ReadField(tag);
    return !broken_;
  }
  return false;
}

bool FieldReader::ReadField(uint32_t tag) {
  number_ = tag >> 3;
  kind_ = static_cast<Kind>(tag & 7);
  if (number_ == 0) return false;
  switch (kind_) {
    case Kind::kVarint:
      return in_.ReadVarint64(&value_);
    case Kind::kFixed64:
      return in_.ReadLittleEndian64(&value_);
    case Kind::kBytes:
      return ReadBytes();
    case Kind::kFixed32: {
      uint32_t value = 0;
      const bool read = in_.ReadLittleEndian32(&value);
      value_ = value;
      return read;
    }
  }
  return false;  // the end of a group that never began, or a kind that does not exist
}

bool FieldReader::ReadBytes() {
  uint64_t size = 0;
  if (!in_.ReadVarint64(&size) || size > INT_MAX) return false;
  const void* data = "";
  int available = 0;
  if (size > 0 && (!in_.GetDirectBufferPointer(&data, &available) || static_cast<uint64_t>(available) < size))
    return false;
  bytes_ = absl::string_view(static_cast<const char*>(data), size);
  return in_.Skip(static_cast<int>(size));
}

}  // namespace widelane
