// Rows of requests, in every form the protocol has.

#ifndef WIDELANE_TESTS_SUPPORT_ROWS_H_
#define WIDELANE_TESTS_SUPPORT_ROWS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "widelane/v1/scoring.pb.h"

namespace widelane::test {

// Feature and value of each entry.
using WireRow = std::vector<std::pair<int64_t, float>>;

// CSR arrays as plain numbers. Empty `values`: none are sent.
v1::Rows PlainRows(const std::vector<int64_t>& indptr, const std::vector<int64_t>& indices,
                   const std::vector<float>& values = {});
v1::Rows PlainRows(const std::vector<WireRow>& rows);

// Elements as little-endian bytes of `type`. Numbers must fit; F16 only takes those that half precision holds.
v1::Array Encode(v1::ElementType type, const std::vector<double>& numbers);

struct Encoding {
  bool row_lengths = false;           // else indptr
  v1::ElementType offsets = v1::U32;  // of indptr or row_lengths
  v1::ElementType indices = v1::U32;  //
  v1::ElementType values = v1::F32;   // ELEMENT_TYPE_UNSPECIFIED: none are sent
};
v1::Rows EncodedRows(const std::vector<WireRow>& rows, const Encoding& encoding);

v1::ScoreRequest Request(const std::string& model, const v1::Rows& rows);
// A request for one row of Id1 with this value.
v1::ScoreRequest Id1Request(const std::vector<float>& values);

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_ROWS_H_
