#include "server/front/score_codec.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/front/field_reader.h"
#include "server/front/limits.h"
#include "widelane/engine/errors.h"
#include "widelane/v1/scoring.pb.h"

namespace widelane {

namespace {

using Kind = FieldReader::Kind;
using google::protobuf::io::CodedInputStream;

absl::Status Garbled(absl::string_view where) {
  return absl::InvalidArgumentError(
      absl::StrCat("the message is not a ScoreRequest: it is cut short or garbled in ", where));
}

absl::Status RowsError(const LimitsConfig& limits, uint64_t rows) {
  return LimitError(kMaxRequestRows, limits.max_request_rows, "rows of the request:", rows);
}

absl::Status EntriesError(const LimitsConfig& limits, uint64_t entries) {
  return LimitError(kMaxRequestEntries, limits.max_request_entries, "entries of the request:", entries);
}

// An Array message, as far as it was given.
struct ArrayField {
  bool present = false;
  uint64_t type = 0;
  absl::string_view data;
};

struct RowsFields {
  ArrayField indptr;
  ArrayField row_lengths;
  ArrayField indices;
  ArrayField values;
  uint64_t features = 0;
};

bool ReadArray(absl::string_view message, ArrayField& array) {
  array.present = true;
  FieldReader reader(message);
  while (reader.Next()) {
    if (reader.Is(v1::Array::kTypeFieldNumber, Kind::kVarint)) array.type = reader.value();
    if (reader.Is(v1::Array::kDataFieldNumber, Kind::kBytes)) array.data = reader.bytes();
  }
  return !reader.broken();
}

// Makes room for `more` elements, paid for unless they are few. `exact`: no more will come.
template <typename T>
absl::Status MakeRoom(uint64_t more, bool exact, TakeMemory take, std::vector<T>& out) {
  const uint64_t needed = out.size() + more;
  if (needed <= out.capacity()) return absl::OkStatus();
  const uint64_t capacity = exact ? needed : std::max<uint64_t>(needed, 2 * out.capacity());
  if (capacity > kFreePlainElements) {
    if (absl::Status status = take(capacity * sizeof(T)); !status.ok()) return status;
  }
  out.reserve(capacity);
  return absl::OkStatus();
}

// Adds a repeated int64 field, packed or one element; stops behind `most` elements.
absl::Status AddIntegers(const FieldReader& reader, uint64_t most, TakeMemory take, std::vector<int64_t>& out) {
  if (out.size() > most) return absl::OkStatus();
  if (reader.kind() == Kind::kVarint) {
    if (absl::Status status = MakeRoom(1, false, take, out); !status.ok()) return status;
    out.push_back(static_cast<int64_t>(reader.value()));
    return absl::OkStatus();
  }
  if (reader.kind() != Kind::kBytes) return absl::OkStatus();  // unknown
  const absl::string_view bytes = reader.bytes();
  // Each number has one byte without the uppermost bit, its last.
  const auto numbers = std::count_if(bytes.begin(), bytes.end(), [](char byte) { return (byte & 0x80) == 0; });
  const uint64_t count = std::min<uint64_t>(static_cast<uint64_t>(numbers), most + 1 - out.size());
  if (absl::Status status = MakeRoom(count, true, take, out); !status.ok()) return status;
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  while (static_cast<size_t>(in.CurrentPosition()) < bytes.size() && out.size() <= most) {
    uint64_t value = 0;
    if (!in.ReadVarint64(&value)) return Garbled("rows");
    out.push_back(static_cast<int64_t>(value));
  }
  return absl::OkStatus();
}

// The same for floats.
absl::Status AddFloats(const FieldReader& reader, uint64_t most, TakeMemory take, std::vector<float>& out) {
  if (out.size() > most) return absl::OkStatus();
  if (reader.kind() == Kind::kFixed32) {
    const auto bits = static_cast<uint32_t>(reader.value());
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    if (absl::Status status = MakeRoom(1, false, take, out); !status.ok()) return status;
    out.push_back(value);
    return absl::OkStatus();
  }
  if (reader.kind() != Kind::kBytes) return absl::OkStatus();  // unknown
  const absl::string_view bytes = reader.bytes();
  if (bytes.size() % sizeof(float) != 0) return Garbled("rows");
  const size_t before = out.size();
  const size_t count = std::min<size_t>(bytes.size() / sizeof(float), most + 1 - before);
  if (absl::Status status = MakeRoom(count, true, take, out); !status.ok()) return status;
  out.resize(before + count);
  if (count > 0) std::memcpy(out.data() + before, bytes.data(), count * sizeof(float));
  return absl::OkStatus();
}

absl::Status AddArray(const FieldReader& reader, ArrayField& array) {
  return reader.kind() != Kind::kBytes || ReadArray(reader.bytes(), array) ? absl::OkStatus() : Garbled("rows");
}

absl::Status ReadRowsField(const FieldReader& reader, const LimitsConfig& limits, TakeMemory take, RowsFields& rows,
                           ScoreRequestView& request) {
  switch (reader.number()) {
    case v1::Rows::kIndptrFieldNumber:
      return AddArray(reader, rows.indptr);
    case v1::Rows::kRowLengthsFieldNumber:
      return AddArray(reader, rows.row_lengths);
    case v1::Rows::kIndicesFieldNumber:
      return AddArray(reader, rows.indices);
    case v1::Rows::kValuesFieldNumber:
      return AddArray(reader, rows.values);
    case v1::Rows::kPlainIndptrFieldNumber:
      return AddIntegers(reader, limits.max_request_rows + 1, take, request.plain_indptr);
    case v1::Rows::kPlainIndicesFieldNumber:
      return AddIntegers(reader, limits.max_request_entries, take, request.plain_indices);
    case v1::Rows::kPlainValuesFieldNumber:
      return AddFloats(reader, limits.max_request_entries, take, request.plain_values);
    case v1::Rows::kFeaturesFieldNumber:
      if (reader.kind() == Kind::kVarint) rows.features = reader.value();
      return absl::OkStatus();
    default:
      return absl::OkStatus();
  }
}

absl::Status ReadRows(absl::string_view message, const LimitsConfig& limits, TakeMemory take, RowsFields& rows,
                      ScoreRequestView& request) {
  FieldReader reader(message);
  while (reader.Next()) {
    if (absl::Status status = ReadRowsField(reader, limits, take, rows, request); !status.ok()) return status;
  }
  return reader.broken() ? Garbled("rows") : absl::OkStatus();
}

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

// One of the arrays of Rows from its bytes form, or `plain`, its plain form, if that has elements. Absent if neither
// was given.
absl::StatusOr<std::optional<TypedArray>> ToTypedArray(const char* field, const ArrayField& array,
                                                       const TypedArray& plain) {
  if (!array.present) return plain.count == 0 ? std::nullopt : std::make_optional(plain);
  if (plain.count != 0) {
    return FieldError(absl::StrCat("rows.", field),
                      absl::StrCat("is given together with plain_", field, "; give one of the two"));
  }
  const std::optional<ElementType> type = ToElementType(array.type);
  if (!type.has_value()) {
    return FieldError(absl::StrCat("rows.", field), array.type == 0
                                                        ? std::string("has no element type")
                                                        : absl::StrCat("has unknown element type ", array.type));
  }
  const size_t size = ElementSize(*type);
  if (array.data.size() % size != 0) {
    return FieldError(
        absl::StrCat("rows.", field),
        absl::StrCat("has ", array.data.size(), " bytes, not a multiple of ", size, " (", ElementName(*type), ")"));
  }
  return TypedArray{*type, reinterpret_cast<const std::byte*>(array.data.data()), array.data.size() / size};
}

// Lengths have no plain form.
constexpr TypedArray kNone{};

absl::Status MakeView(const RowsFields& rows, const LimitsConfig& limits, ScoreRequestView& request) {
  const auto integers = [](const std::vector<int64_t>& v) {
    return TypedArray::Of(ElementType::kI64, v.data(), v.size());
  };
  const auto indptr = ToTypedArray("indptr", rows.indptr, integers(request.plain_indptr));
  if (!indptr.ok()) return indptr.status();
  const auto row_lengths = ToTypedArray("row_lengths", rows.row_lengths, kNone);
  if (!row_lengths.ok()) return row_lengths.status();
  const auto indices = ToTypedArray("indices", rows.indices, integers(request.plain_indices));
  if (!indices.ok()) return indices.status();
  const auto values =
      ToTypedArray("values", rows.values,
                   TypedArray::Of(ElementType::kF32, request.plain_values.data(), request.plain_values.size()));
  if (!values.ok()) return values.status();

  CsrView& csr = request.csr;
  csr.indptr = *indptr;
  csr.row_lengths = *row_lengths;
  csr.indices = indices->value_or(TypedArray{});
  csr.values = *values;
  csr.features = rows.features == 0 ? std::nullopt : std::make_optional(rows.features);
  if (csr.indptr.has_value() && csr.row_lengths.has_value()) {
    return FieldError("rows.row_lengths", "is given together with indptr; give one of the two");
  }
  if (!csr.indptr.has_value() && !csr.row_lengths.has_value()) {
    return FieldError("rows.indptr", "is missing, and so is row_lengths; give one of the two");
  }
  const uint64_t count =
      csr.indptr.has_value() ? csr.indptr->count - (csr.indptr->count > 0 ? 1 : 0) : csr.row_lengths->count;
  if (count > limits.max_request_rows) return RowsError(limits, count);
  if (csr.indices.count > limits.max_request_entries) return EntriesError(limits, csr.indices.count);
  return absl::OkStatus();
}

absl::Status AddOutput(uint64_t output, uint8_t& outputs) {
  switch (output) {
    case v1::SCORES:
      outputs |= kReplyScores;
      return absl::OkStatus();
    case v1::RAW:
      outputs |= kReplyRaw;
      return absl::OkStatus();
    case v1::LABELS:
      outputs |= kReplyLabels;
      return absl::OkStatus();
    case v1::PROBABILITIES:
      outputs |= kReplyProbabilities;
      return absl::OkStatus();
    case v1::TOP_K:
      outputs |= kReplyTopK;
      return absl::OkStatus();
    default:
      return FieldError("outputs", absl::StrCat("has the unknown output ", output));
  }
}

absl::Status AddOutputs(const FieldReader& reader, uint8_t& outputs) {
  if (reader.kind() == Kind::kVarint) return AddOutput(reader.value(), outputs);
  if (reader.kind() != Kind::kBytes) return absl::OkStatus();
  const absl::string_view bytes = reader.bytes();
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  while (static_cast<size_t>(in.CurrentPosition()) < bytes.size()) {
    uint64_t output = 0;
    if (!in.ReadVarint64(&output)) return Garbled("outputs");
    if (absl::Status status = AddOutput(output, outputs); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ReadField(const FieldReader& reader, const LimitsConfig& limits, TakeMemory take, RowsFields& rows,
                       ScoreRequestView& request) {
  if (reader.Is(v1::ScoreRequest::kModelFieldNumber, Kind::kBytes)) request.model = reader.bytes();
  if (reader.Is(v1::ScoreRequest::kVersionFieldNumber, Kind::kBytes)) request.version = reader.bytes();
  if (reader.Is(v1::ScoreRequest::kTopKFieldNumber, Kind::kVarint))
    request.top_k = static_cast<uint32_t>(reader.value());
  if (reader.Is(v1::ScoreRequest::kStageTimesFieldNumber, Kind::kVarint)) request.stage_times = reader.value() != 0;
  if (reader.number() == v1::ScoreRequest::kOutputsFieldNumber) return AddOutputs(reader, request.outputs);
  if (!reader.Is(v1::ScoreRequest::kRowsFieldNumber, Kind::kBytes)) return absl::OkStatus();
  return ReadRows(reader.bytes(), limits, take, rows, request);
}

}  // namespace

absl::Status DecodeScoreRequest(absl::string_view message, const LimitsConfig& limits, TakeMemory take,
                                ScoreRequestView& request) {
  request.model = request.version = {};
  request.outputs = 0;
  request.top_k = 0;
  request.stage_times = false;
  request.plain_indptr.clear();
  request.plain_indices.clear();
  request.plain_values.clear();

  RowsFields rows;
  FieldReader reader(message);
  while (reader.Next()) {
    if (absl::Status status = ReadField(reader, limits, take, rows, request); !status.ok()) return status;
  }
  if (reader.broken()) return Garbled("the request");
  if (request.outputs == 0) request.outputs = kReplyScores;
  return MakeView(rows, limits, request);
}

absl::Status DecodeScoreRequest(absl::string_view message, const LimitsConfig& limits, ScoreRequestView& request) {
  return DecodeScoreRequest(
      message, limits, [](uint64_t) { return absl::OkStatus(); }, request);
}

}  // namespace widelane
