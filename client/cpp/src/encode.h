// Rows to their wire form, in the narrowest types that hold them.

#ifndef WIDELANE_CLIENT_SRC_ENCODE_H_
#define WIDELANE_CLIENT_SRC_ENCODE_H_

#include "absl/status/status.h"
#include "widelane/client/rows.h"
#include "widelane/v1/scoring.pb.h"

namespace widelane::client {

// Indices become u16 if all are below 65,536, else u32; one that fits neither leaves all as i64, and the server says
// which row is wrong. Values that are all 1 are left out; doubles become floats unless one is beyond them, which the
// server then names. Offsets become row lengths, u16 if they fit. Errors: INVALID_ARGUMENT for offsets that do not
// start at 0, fall, or do not end at the number of indices, and for values that are not as many as the indices.
absl::Status EncodeRows(const RowsView& rows, v1::Rows& out);

}  // namespace widelane::client

#endif  // WIDELANE_CLIENT_SRC_ENCODE_H_
