#include "tests/support/rows.h"

#include <cmath>
#include <cstring>

#include "tests/support/check.h"

namespace widelane::test {
namespace {

template <typename T>
void Append(double number, std::string& out) {
  const T element = static_cast<T>(number);
  out.append(reinterpret_cast<const char*>(&element), sizeof(element));
}

// Half precision of a number that has one, normal or zero.
uint16_t Half(double number) {
  if (number == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(number), &exponent);  // in [0.5, 1)
  const double mantissa = (fraction * 2 - 1) * 1024;
  Require(exponent > -14 && exponent <= 16 && mantissa == std::floor(mantissa), "a number half precision holds");
  const int bits = (exponent + 14) << 10 | static_cast<int>(mantissa);
  return static_cast<uint16_t>(bits | (number < 0 ? 0x8000 : 0));
}

void AppendAs(v1::ElementType type, double number, std::string& out) {
  switch (type) {
    case v1::U16:
      return Append<uint16_t>(number, out);
    case v1::U32:
      return Append<uint32_t>(number, out);
    case v1::I32:
      return Append<int32_t>(number, out);
    case v1::I64:
      return Append<int64_t>(number, out);
    case v1::F16:
      return Append<uint16_t>(Half(number), out);
    case v1::F32:
      return Append<float>(number, out);
    case v1::F64:
      return Append<double>(number, out);
    default:
      Require(false, "an element type");
  }
}

}  // namespace

v1::Rows PlainRows(const std::vector<int64_t>& indptr, const std::vector<int64_t>& indices,
                   const std::vector<float>& values) {
  v1::Rows rows;
  rows.mutable_plain_indptr()->Add(indptr.begin(), indptr.end());
  rows.mutable_plain_indices()->Add(indices.begin(), indices.end());
  rows.mutable_plain_values()->Add(values.begin(), values.end());
  return rows;
}

v1::Rows PlainRows(const std::vector<WireRow>& rows) {
  v1::Rows out;
  out.add_plain_indptr(0);
  for (const WireRow& row : rows) {
    for (const auto& [index, value] : row) {
      out.add_plain_indices(index);
      out.add_plain_values(value);
    }
    out.add_plain_indptr(out.plain_indices_size());
  }
  return out;
}

v1::Array Encode(v1::ElementType type, const std::vector<double>& numbers) {
  v1::Array array;
  array.set_type(type);
  for (const double number : numbers) AppendAs(type, number, *array.mutable_data());
  return array;
}

v1::Rows EncodedRows(const std::vector<WireRow>& rows, const Encoding& encoding) {
  std::vector<double> indptr = {0};
  std::vector<double> lengths;
  std::vector<double> indices;
  std::vector<double> values;
  for (const WireRow& row : rows) {
    for (const auto& [index, value] : row) {
      indices.push_back(static_cast<double>(index));
      values.push_back(value);
    }
    lengths.push_back(static_cast<double>(row.size()));
    indptr.push_back(static_cast<double>(indices.size()));
  }
  v1::Rows out;
  if (encoding.row_lengths) {
    *out.mutable_row_lengths() = Encode(encoding.offsets, lengths);
  } else {
    *out.mutable_indptr() = Encode(encoding.offsets, indptr);
  }
  *out.mutable_indices() = Encode(encoding.indices, indices);
  if (encoding.values != v1::ELEMENT_TYPE_UNSPECIFIED) *out.mutable_values() = Encode(encoding.values, values);
  return out;
}

v1::ScoreRequest Request(const std::string& model, const v1::Rows& rows) {
  v1::ScoreRequest request;
  request.set_model(model);
  *request.mutable_rows() = rows;
  return request;
}

v1::ScoreRequest Id1Request(const std::vector<float>& values) {
  std::vector<WireRow> rows;
  for (const float value : values) rows.push_back({{0, value}});
  return Request("id1", PlainRows(rows));
}

}  // namespace widelane::test
