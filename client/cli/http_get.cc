#include "client/cli/http_get.h"

#include <civetweb.h>

#include <algorithm>
#include <array>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace widelane::cli {
namespace {

struct CloseConnection {
  void operator()(mg_connection* connection) const { mg_close_connection(connection); }
};
using Connection = std::unique_ptr<mg_connection, CloseConnection>;

constexpr int kOk = 200;
constexpr size_t kMostOfAnError = 4096;

absl::Status CutShort(const std::string& address) {
  return absl::UnavailableError(absl::StrCat(address, " ended the answer before it was complete"));
}

absl::StatusOr<uint64_t> ReadBody(mg_connection* connection, const std::string& address,
                                  absl::FunctionRef<absl::Status(absl::string_view)> take) {
  std::array<char, 1 << 16> buffer;
  uint64_t bytes = 0;
  for (;;) {
    const int count = mg_read(connection, buffer.data(), buffer.size());
    if (count < 0) return CutShort(address);
    if (count == 0) break;
    bytes += static_cast<uint64_t>(count);
    if (absl::Status status = take({buffer.data(), static_cast<size_t>(count)}); !status.ok()) return status;
  }
  const long long told = mg_get_response_info(connection)->content_length;
  if (told >= 0 && static_cast<uint64_t>(told) != bytes) return CutShort(address);
  return bytes;
}

absl::StatusOr<Connection> Open(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 1 ||
      port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("'", address, "' is not HOST:PORT"));
  }
  absl::string_view host = absl::string_view(address).substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  std::array<char, 256> error{};
  Connection connection(mg_connect_client(std::string(host).c_str(), port, 0, error.data(), error.size()));
  if (connection == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot connect to ", address, ": ", error.data()));
  }
  return connection;
}

}  // namespace

absl::StatusOr<uint64_t> HttpGet(const std::string& address, const std::string& path,
                                 std::chrono::milliseconds patience,
                                 absl::FunctionRef<absl::Status(absl::string_view)> take) {
  const absl::StatusOr<Connection> opened = Open(address);
  if (!opened.ok()) return opened.status();
  mg_connection* const connection = opened->get();
  const std::string request =
      absl::StrCat("GET /", path, " HTTP/1.1\r\nHost: ", address, "\r\nConnection: close\r\n\r\n");
  mg_write(connection, request.data(), request.size());
  std::array<char, 256> error{};
  if (mg_get_response(connection, error.data(), error.size(), static_cast<int>(patience.count())) < 0) {
    return absl::UnavailableError(absl::StrCat("no answer from ", address, ": ", error.data()));
  }
  const int code = mg_get_response_info(connection)->status_code;
  if (code == kOk) return ReadBody(connection, address, take);
  std::string why;
  const auto keep = [&why](absl::string_view piece) {
    why.append(piece.data(), std::min(piece.size(), kMostOfAnError - why.size()));
    return absl::OkStatus();
  };
  (void)ReadBody(connection, address, keep);
  return absl::FailedPreconditionError(
      absl::StrCat(address, " refuses: ", absl::StripTrailingAsciiWhitespace(why), " (HTTP ", code, ")"));
}

}  // namespace widelane::cli
