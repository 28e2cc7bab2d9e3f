// Which trace of the caller a call belongs to: W3C Trace Context's `traceparent`, as it comes in metadata.

#ifndef WIDELANE_SERVER_FRONT_TRACE_PARENT_H_
#define WIDELANE_SERVER_FRONT_TRACE_PARENT_H_

#include <array>
#include <optional>

#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"

namespace widelane {

struct TraceParent {
  std::array<char, 32> trace_id;   // hexadecimal digits in lower case, not all 0
  std::array<char, 16> parent_id;  // the same
  bool sampled = false;            // the caller records it

  absl::string_view trace_id_text() const { return {trace_id.data(), trace_id.size()}; }
  absl::string_view parent_id_text() const { return {parent_id.data(), parent_id.size()}; }
};

// Absent unless `text` is as the standard wants it: "00-<trace id>-<parent id>-<flags>", or a later version that begins
// so.
std::optional<TraceParent> ParseTraceParent(absl::string_view text);

// That of a call; absent when there is none, a bad one, or several. Makes gRPC build its table of all metadata, so it
// is asked only when somebody wants to know. One thread at a time for each context.
std::optional<TraceParent> ReadTraceParent(const grpc::ServerContext& context);

}  // namespace widelane

#endif  // WIDELANE_SERVER_FRONT_TRACE_PARENT_H_
