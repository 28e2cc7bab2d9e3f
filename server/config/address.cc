#include "server/config/address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace widelane {

namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses LookUp(const HostPort& address, int& error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  return Addresses(error == 0 ? list : nullptr);
}

// The system's words, as the end of a sentence.
std::string Text(int error) {
  std::string text = std::system_category().message(error);
  text[0] = absl::ascii_tolower(static_cast<unsigned char>(text[0]));
  return text;
}

absl::Status Refusal(const std::string& what, const std::string& address, const std::string& reason) {
  return absl::UnavailableError(absl::StrCat("cannot listen for ", what, " on ", address, ": ", reason));
}

constexpr char kUnix[] = "unix:";

// Whether a connection is taken at `path`.
bool SomebodyListens(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return true;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  // Every other error than this one says that there may be somebody.
  const bool refused =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 && errno == ECONNREFUSED;
  close(fd);
  return !refused;
}

}  // namespace

std::optional<std::string> ParseUnixPath(const std::string& text) {
  absl::string_view path = text;
  if (!absl::ConsumePrefix(&path, kUnix) || path.empty() || path[0] != '/') return std::nullopt;
  if (path.size() >= sizeof(sockaddr_un::sun_path)) return std::nullopt;
  return std::string(path);
}

absl::Status CheckCanListen(const std::string& what, const std::string& unix_path) {
  const std::string address = absl::StrCat(kUnix, unix_path);
  struct stat file {};
  if (lstat(unix_path.c_str(), &file) != 0) {
    if (errno != ENOENT) return Refusal(what, address, Text(errno));
    const std::string folder = unix_path.substr(0, unix_path.rfind('/') + 1);
    return access(folder.c_str(), W_OK) == 0 ? absl::OkStatus() : Refusal(what, address, Text(errno));
  }
  if (!S_ISSOCK(file.st_mode)) return Refusal(what, address, "there is a file of this name that is no socket");
  if (SomebodyListens(unix_path)) return Refusal(what, address, Text(EADDRINUSE));
  return unlink(unix_path.c_str()) == 0 ? absl::OkStatus() : Refusal(what, address, Text(errno));
}

std::vector<std::string> SplitAddresses(const std::string& text) { return absl::StrSplit(text, ','); }

std::optional<HostPort> ParseHostPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  HostPort address{text.substr(0, colon), 0};
  const std::string port = text.substr(colon + 1);
  uint32_t number = 0;
  const bool digits = port.find_first_not_of("0123456789") == std::string::npos;
  if (port.empty() || !digits || !absl::SimpleAtoi(port, &number) || number > 65535) return std::nullopt;
  address.port = static_cast<uint16_t>(number);
  if (address.host.front() == '[' && address.host.back() == ']' && address.host.size() > 2) {
    address.host = address.host.substr(1, address.host.size() - 2);
  } else if (address.host.find(':') != std::string::npos) {
    return std::nullopt;
  }
  return address;
}

std::string ToText(const HostPort& address) {
  if (address.host.find(':') != std::string::npos) return absl::StrCat("[", address.host, "]:", address.port);
  return absl::StrCat(address.host, ":", address.port);
}

bool IsNumeric(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return false;
  freeaddrinfo(list);
  return true;
}

absl::StatusOr<HostPort> Resolve(const HostPort& address) {
  int error = 0;
  const Addresses list = LookUp(address, error);
  char host[NI_MAXHOST];
  if (error == 0) error = getnameinfo(list->ai_addr, list->ai_addrlen, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  if (error != 0)
    return absl::UnavailableError(absl::StrCat("host '", address.host, "' cannot be resolved: ", gai_strerror(error)));
  return HostPort{host, address.port};
}

void Knock(const HostPort& address) {
  int error = 0;
  const Addresses list = LookUp(address, error);
  if (error != 0) return;
  const int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  (void)connect(fd, list->ai_addr, list->ai_addrlen);
  close(fd);
}

absl::Status CheckCanListen(const std::string& what, const HostPort& address) {
  const auto refuse = [&](const std::string& reason) { return Refusal(what, ToText(address), reason); };
  int error = 0;
  const Addresses list = LookUp(address, error);
  if (error != 0) return refuse(gai_strerror(error));
  const int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return refuse(Text(errno));
  const int on = 1;
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool can_listen = bind(fd, list->ai_addr, list->ai_addrlen) == 0 && listen(fd, 1) == 0;
  const int reason = errno;
  close(fd);
  return can_listen ? absl::OkStatus() : refuse(Text(reason));
}

}  // namespace widelane
