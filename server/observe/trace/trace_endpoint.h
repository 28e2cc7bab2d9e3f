// GET /trace?seconds=N: records for so long, then answers the timeline as a file.

#ifndef WIDELANE_SERVER_OBSERVE_TRACE_TRACE_ENDPOINT_H_
#define WIDELANE_SERVER_OBSERVE_TRACE_TRACE_ENDPOINT_H_

#include <chrono>
#include <string>

#include "absl/status/statusor.h"

struct mg_connection;

namespace widelane {

// The longest timeline.
inline constexpr std::chrono::seconds kMostTraceTime{60};

// The time that the query of a URL asks for. Errors: INVALID_ARGUMENT.
absl::StatusOr<std::chrono::nanoseconds> TraceTime(const std::string& query);

// A request handler of civetweb's whose data is the Tracer.
int HandleTrace(mg_connection* connection, void* tracer);

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_TRACE_TRACE_ENDPOINT_H_
