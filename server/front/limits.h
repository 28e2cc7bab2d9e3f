// Errors about the server's limits, in one form: the limit, its value, what was asked, and the option that sets it.

#ifndef WIDELANE_SERVER_FRONT_LIMITS_H_
#define WIDELANE_SERVER_FRONT_LIMITS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace widelane {

// The options that limit requests; they are the values of widelane_refused_total's label as well.
inline constexpr char kMaxMessageBytes[] = "max-message-bytes";
inline constexpr char kMaxRequestRows[] = "max-request-rows";
inline constexpr char kMaxRequestEntries[] = "max-request-entries";
inline constexpr char kMaxReplyBytes[] = "max-reply-bytes";
inline constexpr char kMaxQueuedRequests[] = "max-queued-requests";
inline constexpr char kMaxQueuedRows[] = "max-queued-rows";
inline constexpr char kMaxQueuedBytes[] = "max-queued-bytes";
inline constexpr char kMaxQueuedReplyBytes[] = "max-queued-reply-bytes";
inline constexpr char kSlabEntries[] = "slab-entries";  // the longest row
inline constexpr char kSlabContextSums[] = "slab-context-sums";
inline constexpr char kStreamStall[] = "stream-stall-ms";
inline constexpr const char* kLimitOptions[] = {
    kMaxMessageBytes, kMaxRequestRows, kMaxRequestEntries,   kMaxReplyBytes, kMaxQueuedRequests, kMaxQueuedRows,
    kMaxQueuedBytes,  kSlabEntries,    kMaxQueuedReplyBytes, kStreamStall,   kSlabContextSums};

// RESOURCE_EXHAUSTED: "<what> <asked>, the limit is <limit> (--<option>)".
absl::Status LimitError(absl::string_view option, uint64_t limit, absl::string_view what, uint64_t asked);

// Says of another error that it, too, is about the limit that `option` sets.
absl::Status AboutLimit(absl::Status status, absl::string_view option);

// The option of a LimitError or AboutLimit.
std::optional<std::string> ErrorLimit(const absl::Status& status);

// Whether waiting helps: the server was full, as opposed to a request that is too large for it.
bool IsPassing(const absl::Status& limit_error);

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_LIMITS_H_
