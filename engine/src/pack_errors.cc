#include "pack_errors.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "elements.h"
#include "widelane/engine/errors.h"

namespace widelane {

namespace {

const char* Prefix(RowsOf whose) { return whose == RowsOf::kContexts ? "contexts." : ""; }
const char* Row(RowsOf whose) { return whose == RowsOf::kContexts ? "context " : "row "; }

struct Place {
  RowsOf whose;
  uint64_t entry;
  uint64_t row;
  uint64_t position;
};

absl::Status EntryError(const char* array, const Place& place, absl::string_view problem) {
  return FieldError(absl::StrCat(Prefix(place.whose), array, "[", place.entry, "]"),
                    absl::StrCat(Row(place.whose), place.row, ", position ", place.position, ": ", problem));
}

absl::Status IndexError(const Place& place, uint64_t feature, const Model& model) {
  return EntryError(
      "indices", place,
      absl::StrCat("feature ", static_cast<int64_t>(feature), " is outside the model's ", model.features(),
                   " features (0 to ", static_cast<int64_t>(model.features()) - 1, ")"));
}

absl::Status ValueError(const Place& place, double value) {
  const char* problem = std::isnan(value)   ? "is not a number"
                        : std::isinf(value) ? "is infinite"
                                            : "is beyond the range of float32";
  return EntryError("values", place, absl::StrCat(value, " ", problem));
}

double ValueAt(const TypedArray& values, uint64_t i) {
  double value = 0;
  ForEachRun(values, i, 1, [&](const std::byte* data, uint64_t) {
    value = values.type == ElementType::kF16   ? ToDouble(LoadAt<Half>(data, 0))
            : values.type == ElementType::kF32 ? LoadAt<float>(data, 0)
                                               : LoadAt<double>(data, 0);
    return true;
  });
  return value;
}

bool IsFiniteFloat(double value) { return std::isfinite(static_cast<float>(value)); }

// No model of any size has a negative feature; it is a caller's slip, not a feature that is new.
bool Refuses(const Model& model, uint64_t feature) {
  if (feature < model.features()) return false;
  return model.unknown_features() == UnknownFeatures::kRefuse || static_cast<int64_t>(feature) < 0;
}

}  // namespace

absl::Status FirstRefused(const CsrView& csr, RowCursor cursor, uint64_t rows, const Model& model, bool with_values,
                          RowsOf whose) {
  IntegerReader indices(csr.indices);
  for (uint64_t r = 0; r < rows; ++r, cursor.Next()) {
    const uint64_t begin = cursor.begin();
    const uint64_t length = cursor.length();
    for (uint64_t i = 0; i < length; ++i) {
      const uint64_t feature = indices[begin + i];
      if (Refuses(model, feature)) return IndexError({whose, begin + i, cursor.row(), i}, feature, model);
    }
    if (!with_values || !csr.values.has_value()) continue;
    for (uint64_t i = 0; i < length; ++i) {
      const double value = ValueAt(*csr.values, begin + i);
      if (!IsFiniteFloat(value)) return ValueError({whose, begin + i, cursor.row(), i}, value);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFeatures(const CsrView& csr, const Model& model, RowsOf whose) {
  if (!csr.features.has_value() || *csr.features == model.features()) return absl::OkStatus();
  return FieldError(absl::StrCat(Prefix(whose), "features"),
                    absl::StrCat("is ", *csr.features, ", the model has ", model.features()));
}

}  // namespace widelane
