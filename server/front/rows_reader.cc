#include "server/front/rows_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "widelane/engine/errors.h"
#include "widelane/v1/scoring.pb.h"

namespace widelane {

namespace {

using Kind = FieldReader::Kind;
using google::protobuf::io::CodedInputStream;

// Makes room for `more` elements, paid for unless they are few. `exact`: no more will come.
template <typename T>
absl::Status MakeRoom(uint64_t more, bool exact, TakeMemory take, std::vector<T>& out) {
  const uint64_t needed = out.size() + more;
  if (needed <= out.capacity()) return absl::OkStatus();
  const uint64_t capacity = exact ? needed : std::max<uint64_t>(needed, 2 * out.capacity());
  if (capacity > kFreeElements) {
    if (absl::Status status = take((capacity - out.capacity()) * sizeof(T)); !status.ok()) return status;
  }
  out.reserve(capacity);
  return absl::OkStatus();
}

// What is left of the current block, up to the end of the message; at least a byte, as long as there is one.
absl::string_view Block(CodedInputStream& in) {
  const void* data = nullptr;
  int size = 0;
  if (!in.GetDirectBufferPointer(&data, &size)) return {};
  return {static_cast<const char*>(data), static_cast<size_t>(size)};
}

bool SkipRest(CodedInputStream& in) { return in.Skip(in.BytesUntilLimit()); }

std::optional<ElementType> ToElementType(uint64_t type) {
  switch (type) {
    case v1::U16:
      return ElementType::kU16;
    case v1::U32:
      return ElementType::kU32;
    case v1::I32:
      return ElementType::kI32;
    case v1::I64:
      return ElementType::kI64;
    case v1::F16:
      return ElementType::kF16;
    case v1::F32:
      return ElementType::kF32;
    case v1::F64:
      return ElementType::kF64;
    default:
      return std::nullopt;
  }
}

template <typename T>
absl::Status AddPackedIntegers(ReadContext& context, uint64_t most, std::vector<T>& out) {
  CodedInputStream& in = context.in;
  while (in.BytesUntilLimit() > 0 && out.size() <= most) {
    const absl::string_view block = Block(in);
    // Each number has one byte without the uppermost bit, its last; that of the last one here may be in another block.
    const auto ends = std::count_if(block.begin(), block.end(), [](char byte) { return (byte & 0x80) == 0; });
    const uint64_t count =
        std::min<uint64_t>(std::max<uint64_t>(static_cast<uint64_t>(ends), 1), most + 1 - out.size());
    const bool last = block.size() == static_cast<size_t>(in.BytesUntilLimit());
    if (absl::Status status = MakeRoom(count, last, context.take, out); !status.ok()) return status;
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t value = 0;
      if (!in.ReadVarint64(&value)) return Garbled("a packed field");
      out.push_back(static_cast<T>(value));
    }
  }
  return SkipRest(in) ? absl::OkStatus() : Garbled("a packed field");
}

absl::Status AddFloats(ReadContext& context, FieldReader& reader, uint64_t most, std::vector<float>& out) {
  if (out.size() > most) return absl::OkStatus();
  if (reader.kind() == Kind::kFixed32) {
    const auto bits = static_cast<uint32_t>(reader.value());
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    if (absl::Status status = MakeRoom(1, false, context.take, out); !status.ok()) return status;
    out.push_back(value);
    return absl::OkStatus();
  }
  if (reader.kind() != Kind::kBytes) return absl::OkStatus();  // unknown
  const int size = reader.TakeBytes();
  const MessageScope scope(context.in, size);
  if (static_cast<size_t>(size) % sizeof(float) != 0) return Garbled("a packed field");
  const size_t before = out.size();
  const size_t count = std::min<size_t>(static_cast<size_t>(size) / sizeof(float), most + 1 - before);
  if (absl::Status status = MakeRoom(count, true, context.take, out); !status.ok()) return status;
  out.resize(before + count);
  const bool read = context.in.ReadRaw(out.data() + before, static_cast<int>(count * sizeof(float)));
  return read && SkipRest(context.in) ? absl::OkStatus() : Garbled("a packed field");
}

}  // namespace

absl::Status Garbled(absl::string_view where) {
  return absl::InvalidArgumentError(
      absl::StrCat("the message is not a ScoreRequest: it is cut short or garbled in ", where));
}

template <typename T>
absl::Status AddIntegers(ReadContext& context, FieldReader& reader, uint64_t most, std::vector<T>& out) {
  if (out.size() > most) return absl::OkStatus();
  if (reader.kind() == Kind::kVarint) {
    if (absl::Status status = MakeRoom(1, false, context.take, out); !status.ok()) return status;
    out.push_back(static_cast<T>(reader.value()));
    return absl::OkStatus();
  }
  if (reader.kind() != Kind::kBytes) return absl::OkStatus();  // unknown
  const MessageScope scope(context.in, reader.TakeBytes());
  return AddPackedIntegers(context, most, out);
}

template absl::Status AddIntegers(ReadContext&, FieldReader&, uint64_t, std::vector<int64_t>&);
template absl::Status AddIntegers(ReadContext&, FieldReader&, uint64_t, std::vector<uint32_t>&);

absl::Status ArrayReader::Add(ReadContext& context, FieldReader& reader) {
  if (reader.kind() != Kind::kBytes) return absl::OkStatus();
  present_ = true;
  const MessageScope scope(context.in, reader.TakeBytes());
  FieldReader fields(context.in);
  while (fields.Next()) {
    if (fields.Is(v1::Array::kTypeFieldNumber, Kind::kVarint)) type_ = fields.value();
    if (!fields.Is(v1::Array::kDataFieldNumber, Kind::kBytes)) continue;
    if (absl::Status status = AddPieces(context, fields.TakeBytes()); !status.ok()) return status;
  }
  return fields.broken() ? Garbled("an array") : absl::OkStatus();
}

absl::Status ArrayReader::AddPieces(ReadContext& context, int size) {
  pieces_.clear();
  bytes_ = static_cast<uint64_t>(size);
  for (int begin = 0; begin < size;) {
    const absl::string_view block = Block(context.in).substr(0, static_cast<size_t>(size - begin));
    if (block.empty()) return Garbled("an array");
    if (absl::Status status = MakeRoom(1, false, context.take, pieces_); !status.ok()) return status;
    pieces_.push_back({reinterpret_cast<const std::byte*>(block.data()), static_cast<uint64_t>(begin)});
    begin += static_cast<int>(block.size());
    context.in.Skip(static_cast<int>(block.size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TypedArray>> ArrayReader::Get(const std::string& field, const std::string& plain_field,
                                                           const TypedArray& plain) const {
  if (!present_) return plain.count == 0 ? std::nullopt : std::make_optional(plain);
  if (plain.count != 0) {
    return FieldError(field, absl::StrCat("is given together with ", plain_field, "; give one of the two"));
  }
  const std::optional<ElementType> type = ToElementType(type_);
  if (!type.has_value()) {
    return FieldError(
        field, type_ == 0 ? std::string("has no element type") : absl::StrCat("has unknown element type ", type_));
  }
  const size_t size = ElementSize(*type);
  if (bytes_ % size != 0) {
    return FieldError(field,
                      absl::StrCat("has ", bytes_, " bytes, not a multiple of ", size, " (", ElementName(*type), ")"));
  }
  TypedArray array{*type, pieces_.empty() ? nullptr : pieces_[0].data, bytes_ / size};
  if (pieces_.size() > 1) array.pieces = pieces_;
  return array;
}

RowsReader::RowsReader(const char* name, RowsMemory& memory)
    : name_(name),
      memory_(memory),
      indptr_(memory.indptr_pieces),
      row_lengths_(memory.row_lengths_pieces),
      indices_(memory.indices_pieces),
      values_(memory.values_pieces) {
  memory.indptr.clear();
  memory.indices.clear();
  memory.values.clear();
}

absl::Status RowsReader::Add(ReadContext& context, FieldReader& reader) {
  if (reader.kind() != Kind::kBytes) return absl::OkStatus();
  present_ = true;
  const MessageScope scope(context.in, reader.TakeBytes());
  FieldReader fields(context.in);
  while (fields.Next()) {
    if (absl::Status status = AddField(context, fields); !status.ok()) return status;
  }
  return fields.broken() ? Garbled(name_) : absl::OkStatus();
}

absl::Status RowsReader::AddField(ReadContext& context, FieldReader& reader) {
  switch (reader.number()) {
    case v1::Rows::kIndptrFieldNumber:
      return indptr_.Add(context, reader);
    case v1::Rows::kRowLengthsFieldNumber:
      return row_lengths_.Add(context, reader);
    case v1::Rows::kIndicesFieldNumber:
      return indices_.Add(context, reader);
    case v1::Rows::kValuesFieldNumber:
      return values_.Add(context, reader);
    case v1::Rows::kPlainIndptrFieldNumber:
      return AddIntegers(context, reader, context.limits.max_request_rows + 1, memory_.indptr);
    case v1::Rows::kPlainIndicesFieldNumber:
      return AddIntegers(context, reader, context.limits.max_request_entries, memory_.indices);
    case v1::Rows::kPlainValuesFieldNumber:
      return AddFloats(context, reader, context.limits.max_request_entries, memory_.values);
    case v1::Rows::kFeaturesFieldNumber:
      if (reader.kind() == Kind::kVarint) features_ = reader.value();
      return absl::OkStatus();
    default:
      return absl::OkStatus();
  }
}

absl::Status RowsReader::Get(CsrView& csr) const {
  const auto get = [this](const ArrayReader& array, const char* field, const TypedArray& plain) {
    return array.Get(absl::StrCat(name_, ".", field), absl::StrCat("plain_", field), plain);
  };
  const auto integers = [](const std::vector<int64_t>& v) {
    return TypedArray::Of(ElementType::kI64, v.data(), v.size());
  };
  const auto indptr = get(indptr_, "indptr", integers(memory_.indptr));
  if (!indptr.ok()) return indptr.status();
  const auto row_lengths = get(row_lengths_, "row_lengths", {});
  if (!row_lengths.ok()) return row_lengths.status();
  const auto indices = get(indices_, "indices", integers(memory_.indices));
  if (!indices.ok()) return indices.status();
  const auto values =
      get(values_, "values", TypedArray::Of(ElementType::kF32, memory_.values.data(), memory_.values.size()));
  if (!values.ok()) return values.status();

  csr.indptr = *indptr;
  csr.row_lengths = *row_lengths;
  csr.indices = indices->value_or(TypedArray{});
  csr.values = *values;
  csr.features = features_ == 0 ? std::nullopt : std::make_optional(features_);
  if (csr.indptr.has_value() && csr.row_lengths.has_value()) {
    return FieldError(absl::StrCat(name_, ".row_lengths"), "is given together with indptr; give one of the two");
  }
  if (!csr.indptr.has_value() && !csr.row_lengths.has_value()) {
    return FieldError(absl::StrCat(name_, ".indptr"), "is missing, and so is row_lengths; give one of the two");
  }
  return absl::OkStatus();
}

uint64_t RowsReader::CountRows(const CsrView& csr) {
  return csr.indptr.has_value() ? csr.indptr->count - (csr.indptr->count > 0 ? 1 : 0) : csr.row_lengths->count;
}

}  // namespace widelane
