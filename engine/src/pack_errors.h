// What is wrong with an entry that is not taken, in words.

#ifndef WIDELANE_ENGINE_SRC_PACK_ERRORS_H_
#define WIDELANE_ENGINE_SRC_PACK_ERRORS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "widelane/engine/csr.h"
#include "widelane/engine/model.h"

namespace widelane {

// Whose arrays a message is about.
enum class RowsOf { kRequest, kContexts };

// The first entry of `rows` rows from `cursor` on that is to be refused, row by row, indices before values; OK when
// there is none. Values are looked at if `with_values`.
absl::Status FirstRefused(const CsrView& csr, RowCursor cursor, uint64_t rows, const Model& model, bool with_values,
                          RowsOf whose);

// Whether the caller's idea of the number of features is the model's.
absl::Status CheckFeatures(const CsrView& csr, const Model& model, RowsOf whose);

}  // namespace widelane

#endif  // WIDELANE_ENGINE_SRC_PACK_ERRORS_H_
