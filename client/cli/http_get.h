// A plain GET of a file over HTTP.

#ifndef WIDELANE_CLIENT_CLI_HTTP_GET_H_
#define WIDELANE_CLIENT_CLI_HTTP_GET_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace widelane::cli {

// Hands the body of http://`address`/`path` to `take` piece by piece, unless that fails; how many bytes it was.
// `address` is HOST:PORT. Errors: INVALID_ARGUMENT for another; UNAVAILABLE without a connection, without an answer
// for `patience`, or when the body is cut short; FAILED_PRECONDITION with the server's words when its answer is not
// 200.
absl::StatusOr<uint64_t> HttpGet(const std::string& address, const std::string& path,
                                 std::chrono::milliseconds patience,
                                 absl::FunctionRef<absl::Status(absl::string_view)> take);

}  // namespace widelane::cli

#endif  // WIDELANE_CLIENT_CLI_HTTP_GET_H_
