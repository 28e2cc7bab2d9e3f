// Rows to their wire form, in the narrowest types that hold them.

#ifndef WIDELANE_CLIENT_SRC_ENCODE_H_
#define WIDELANE_CLIENT_SRC_ENCODE_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "widelane/client/rows.h"
#include "widelane/v1/scoring.pb.h"

namespace widelane::client {

// Indices become u16 if all are below 65,536, else u32; one that fits neither leaves all as i64, and the server says
// which row is wrong. Values that are all 1 are left out; others become float16 if that changes none of them, else
// float32 unless a double is beyond it, which the server then names. Offsets become row lengths, u16 if they fit.
// Errors: INVALID_ARGUMENT for offsets that do not start at 0, fall, or do not end at the number of indices, and for
// values that are not as many as the indices.
absl::Status EncodeRows(const RowsView& rows, v1::Rows& out);

// The contexts of `rows`, if there are any, and the context of each row, u16 if they fit. Errors: those of EncodeRows,
// and INVALID_ARGUMENT unless each row has a context. Whether there is such a context, the server says.
absl::Status EncodeContexts(const RowsView& rows, const RowsView& contexts, std::span<const uint32_t> context_of,
                            v1::ScoreRequest& out);

}  // namespace widelane::client

#endif  // WIDELANE_CLIENT_SRC_ENCODE_H_
