// Where the server listens: "host:port", or "unix:/path" for a socket in the file system.

#ifndef WIDELANE_SERVER_CONFIG_ADDRESS_H_
#define WIDELANE_SERVER_CONFIG_ADDRESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace widelane {

struct HostPort {
  std::string host;  // without brackets
  uint16_t port = 0;
};

// Absent unless `text` is host:port, with brackets around an IPv6 host.
std::optional<HostPort> ParseHostPort(const std::string& text);
// The other way.
std::string ToText(const HostPort& address);

// Whether `host` is an IPv4 or IPv6 address, not a name.
bool IsNumeric(const std::string& host);

// `host` as a numeric address. Errors: UNAVAILABLE naming the host.
absl::StatusOr<HostPort> Resolve(const HostPort& address);

// Whether somebody could listen on `address` at this moment. Errors: UNAVAILABLE with `what`, the address and the
// system's words ("address already in use").
absl::Status CheckCanListen(const std::string& what, const HostPort& address);

// The absolute path of "unix:/path"; absent for anything else, and for paths longer than a socket may have.
std::optional<std::string> ParseUnixPath(const std::string& text);
// Whether somebody could listen there. Removes a socket that nobody listens on any more. Errors: UNAVAILABLE, as above.
absl::Status CheckCanListen(const std::string& what, const std::string& unix_path);

// The parts of "address,address".
std::vector<std::string> SplitAddresses(const std::string& text);

// Opens a connection to a numeric address and closes it at once, without waiting.
void Knock(const HostPort& address);

}  // namespace widelane

#endif  // WIDELANE_SERVER_CONFIG_ADDRESS_H_
