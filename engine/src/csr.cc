#include "widelane/engine/csr.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "elements.h"
#include "widelane/engine/errors.h"

namespace widelane {

namespace {

bool IsInteger(ElementType type) { return type <= ElementType::kI64; }

absl::Status TypeError(absl::string_view field, ElementType type, absl::string_view allowed) {
  return FieldError(field, absl::StrCat("elements are ", ElementName(type), ", they may be ", allowed));
}

absl::Status CheckRowLength(absl::string_view field, uint64_t row, uint64_t length, const CsrLimits& limits) {
  const uint64_t limit = std::min(limits.max_row_entries, kMaxRowEntries);
  if (length <= limit) return absl::OkStatus();
  return FieldError(absl::StrCat(field, "[", row, "]"),
                    absl::StrCat("row ", row, " has ", length, " entries, the limit on entries of a row is ", limit));
}

absl::Status CheckRowCount(uint64_t rows, const CsrLimits& limits) {
  if (rows <= limits.max_rows) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("rows: ", rows, " rows, the limit on rows of a request is ", limits.max_rows));
}

// A signed number for messages: what a negative offset looked like to the caller.
int64_t AsSent(uint64_t value) { return static_cast<int64_t>(value); }

absl::StatusOr<uint64_t> CheckIndptr(const TypedArray& indptr, uint64_t entries, const CsrLimits& limits) {
  if (indptr.type == ElementType::kU16 || !IsInteger(indptr.type)) {
    return TypeError("indptr", indptr.type, "u32, i32 or i64");
  }
  if (indptr.count == 0) return FieldError("indptr", "is empty; it holds one offset more than there are rows");
  const uint64_t rows = indptr.count - 1;
  if (absl::Status status = CheckRowCount(rows, limits); !status.ok()) return status;
  IntegerReader offsets(indptr);
  if (const uint64_t first = offsets[0]; first != 0) {
    return FieldError("indptr[0]", absl::StrCat("is ", AsSent(first), ", the first offset must be 0"));
  }
  uint64_t previous = 0;
  for (uint64_t row = 0; row < rows; ++row) {
    const uint64_t next = offsets[row + 1];
    if (next > entries) {
      return FieldError(
          absl::StrCat("indptr[", row + 1, "]"),
          absl::StrCat("is ", AsSent(next), ", row ", row, " would end outside the ", entries, " indices"));
    }
    if (next < previous) {
      return FieldError(absl::StrCat("indptr[", row + 1, "]"),
                        absl::StrCat("is ", next, ", less than ", previous, " before it; offsets never fall"));
    }
    if (absl::Status status = CheckRowLength("indptr", row, next - previous, limits); !status.ok()) return status;
    previous = next;
  }
  if (previous != entries) {
    return FieldError(absl::StrCat("indptr[", rows, "]"),
                      absl::StrCat("is ", previous, ", the last offset must be the number of indices, ", entries));
  }
  return rows;
}

absl::StatusOr<uint64_t> CheckRowLengths(const TypedArray& lengths, uint64_t entries, const CsrLimits& limits) {
  if (lengths.type != ElementType::kU16 && lengths.type != ElementType::kU32) {
    return TypeError("row_lengths", lengths.type, "u16 or u32");
  }
  if (absl::Status status = CheckRowCount(lengths.count, limits); !status.ok()) return status;
  IntegerReader reader(lengths);
  uint64_t sum = 0;
  for (uint64_t row = 0; row < lengths.count; ++row) {
    const uint64_t length = reader[row];
    if (absl::Status status = CheckRowLength("row_lengths", row, length, limits); !status.ok()) return status;
    sum += length;  // at most 2^24 a row, so no overflow below 2^40 rows
    if (sum > entries) {
      return FieldError(absl::StrCat("row_lengths[", row, "]"),
                        absl::StrCat("is ", length, ", row ", row, " would end outside the ", entries, " indices"));
    }
  }
  if (sum != entries) {
    return FieldError("row_lengths", absl::StrCat("add up to ", sum, ", there are ", entries, " indices"));
  }
  return lengths.count;
}

}  // namespace

size_t ElementSize(ElementType type) {
  switch (type) {
    case ElementType::kU16:
    case ElementType::kF16:
      return 2;
    case ElementType::kU32:
    case ElementType::kI32:
    case ElementType::kF32:
      return 4;
    default:
      return 8;
  }
}

const char* ElementName(ElementType type) {
  switch (type) {
    case ElementType::kU16:
      return "u16";
    case ElementType::kU32:
      return "u32";
    case ElementType::kI32:
      return "i32";
    case ElementType::kI64:
      return "i64";
    case ElementType::kF16:
      return "f16";
    case ElementType::kF32:
      return "f32";
    case ElementType::kF64:
      return "f64";
  }
  return "?";
}

absl::StatusOr<CsrShape> CheckShape(const CsrView& csr, const CsrLimits& limits) {
  const uint64_t entries = csr.indices.count;
  if (!IsInteger(csr.indices.type)) return TypeError("indices", csr.indices.type, "u16, u32, i32 or i64");
  if (entries > limits.max_entries) {
    return absl::ResourceExhaustedError(
        absl::StrCat("indices: ", entries, " entries, the limit on entries of a request is ", limits.max_entries));
  }
  if (csr.values.has_value()) {
    if (IsInteger(csr.values->type)) return TypeError("values", csr.values->type, "f16, f32 or f64");
    if (csr.values->count != entries) {
      return FieldError("values", absl::StrCat("there are ", csr.values->count, " values and ", entries, " indices"));
    }
  }
  if (csr.indptr.has_value() && csr.row_lengths.has_value()) {
    return FieldError("row_lengths", "is given together with indptr; give one of the two");
  }
  if (!csr.indptr.has_value() && !csr.row_lengths.has_value()) {
    return FieldError("indptr", "is missing, and so is row_lengths; give one of the two");
  }
  const absl::StatusOr<uint64_t> rows = csr.indptr.has_value() ? CheckIndptr(*csr.indptr, entries, limits)
                                                               : CheckRowLengths(*csr.row_lengths, entries, limits);
  if (!rows.ok()) return rows.status();
  return CsrShape{*rows, entries};
}

namespace {

// Of the contexts, told as theirs.
absl::Status OfContexts(const absl::Status& status) {
  const std::optional<std::string> field = ErrorField(status);
  if (!field.has_value()) return {status.code(), absl::StrCat("contexts.", status.message())};
  return FieldError(absl::StrCat("contexts.", *field), status.message().substr(field->size() + 2));
}

absl::Status CheckContextOf(const std::optional<TypedArray>& of, uint64_t contexts, uint64_t rows) {
  if (!of.has_value()) {
    if (contexts == 1) return absl::OkStatus();
    return FieldError("context_of",
                      absl::StrCat("is missing; it may be when there is one context, and there are ", contexts));
  }
  if (of->type != ElementType::kU16 && of->type != ElementType::kU32) {
    return TypeError("context_of", of->type, "u16 or u32");
  }
  if (of->count != rows) {
    return FieldError("context_of", absl::StrCat("there are ", of->count, " of them and ", rows, " rows"));
  }
  IntegerReader context_of(*of);
  for (uint64_t row = 0; row < rows; ++row) {
    if (const uint64_t context = context_of[row]; context >= contexts) {
      return FieldError(absl::StrCat("context_of[", row, "]"),
                        absl::StrCat("is ", context, ", there are ", contexts, " contexts"));
    }
  }
  return absl::OkStatus();
}

uint64_t LengthOf(const CsrView& csr, uint64_t row) {
  if (!csr.indptr.has_value()) return IntegerAt(*csr.row_lengths, row);
  return IntegerAt(*csr.indptr, row + 1) - IntegerAt(*csr.indptr, row);
}

// Each row and its context, all of which are there.
absl::Status CheckLengthsTogether(const RowContexts& contexts, const CsrView& csr, uint64_t rows, uint64_t limit) {
  if (csr.indices.count + contexts.features.indices.count <= limit) return absl::OkStatus();
  RowCursor cursor(csr);
  for (uint64_t row = 0; row < rows; ++row, cursor.Next()) {
    const uint64_t context = contexts.of.has_value() ? IntegerAt(*contexts.of, row) : 0;
    const uint64_t shared = LengthOf(contexts.features, context);
    if (cursor.length() + shared <= limit) continue;
    return FieldError(contexts.of.has_value() ? absl::StrCat("context_of[", row, "]") : "contexts",
                      absl::StrCat("row ", row, " has ", cursor.length(), " entries and its context ", shared,
                                   ", the limit on entries of a row is ", limit));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CsrShape> CheckContexts(const RowContexts& contexts, const CsrView& rows, const CsrLimits& limits) {
  absl::StatusOr<CsrShape> shape = CheckShape(contexts.features, limits);
  if (!shape.ok()) return OfContexts(shape.status());
  const uint64_t row_count = RowCount(rows);
  if (absl::Status status = CheckContextOf(contexts.of, shape->rows, row_count); !status.ok()) return status;
  const uint64_t limit = std::min(limits.max_row_entries, kMaxRowEntries);
  if (absl::Status status = CheckLengthsTogether(contexts, rows, row_count, limit); !status.ok()) return status;
  return shape;
}

RowCursor::RowCursor(const CsrView& csr, uint64_t row, uint64_t begin)
    : csr_(&csr), row_(row), begin_(begin), run_(RunAt(numbers(), number())) {}

uint64_t RowCursor::length() const {
  const uint64_t at = number();
  const uint64_t is = run_.Has(at) ? IntegerAt(numbers().type, run_.data, at - run_.first) : IntegerAt(numbers(), at);
  return csr_->indptr.has_value() ? is - begin_ : is;
}

void RowCursor::Next() {
  begin_ += length();
  ++row_;
  if (!run_.Has(number()) && !numbers().pieces.empty()) run_ = RunAt(numbers(), number());
}

}  // namespace widelane
