#include "server/front/field_reader.h"

#include <utility>

#include "google/protobuf/wire_format_lite.h"

namespace widelane {

namespace {
constexpr uint32_t kStartGroup = 3;
}  // namespace

bool FieldReader::SkipUntaken() {
  if (untaken_ > 0) broken_ = !in_.Skip(std::exchange(untaken_, 0));
  return !broken_;
}

bool FieldReader::Next() {
  SkipUntaken();
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
    case Kind::kBytes: {
      uint64_t size = 0;
      if (!in_.ReadVarint64(&size) || size > static_cast<uint64_t>(in_.BytesUntilLimit())) return false;
      untaken_ = static_cast<int>(size);
      return true;
    }
    case Kind::kFixed32: {
      uint32_t value = 0;
      const bool read = in_.ReadLittleEndian32(&value);
      value_ = value;
      return read;
    }
  }
  return false;  // the end of a group that never began, or a kind that does not exist
}

int FieldReader::TakeBytes() { return std::exchange(untaken_, 0); }

}  // namespace widelane
