#include "tests/support/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

#include "tests/support/check.h"

namespace widelane::test {
namespace {

sockaddr_in SocketAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  Require(::inet_pton(AF_INET, address.substr(0, colon).c_str(), &out.sin_addr) == 1, "an IPv4 address: " + address);
  return out;
}

std::string Exchange(int fd, const std::string& address, const std::string& request, std::chrono::seconds limit) {
  const timeval time{.tv_sec = limit.count(), .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
  const sockaddr_in to = SocketAddress(address);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) return "";
  if (::send(fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) return "";
  std::string reply;
  std::array<char, 65536> buffer{};
  for (ssize_t count = 0; (count = ::recv(fd, buffer.data(), buffer.size(), 0)) > 0;) {
    reply.append(buffer.data(), static_cast<size_t>(count));
  }
  return reply;
}

}  // namespace

HttpReply HttpGet(const std::string& address, const std::string& path, std::chrono::seconds limit) {
  return HttpCall("GET", address, path, limit);
}

HttpReply HttpCall(const std::string& method, const std::string& address, const std::string& path,
                   std::chrono::seconds limit) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Require(fd >= 0, "a socket");
  const std::string reply = Exchange(
      fd, address, method + " " + path + " HTTP/1.0\r\nHost: " + address + "\r\nConnection: close\r\n\r\n", limit);
  ::close(fd);
  const size_t end = reply.find("\r\n\r\n");
  const size_t space = reply.find(' ');
  if (end == std::string::npos || space == std::string::npos) return {};
  return {std::atoi(reply.c_str() + space), reply.substr(0, end), reply.substr(end + 4)};
}

std::optional<double> MetricValue(const std::string& page, const std::string& name,
                                  const std::vector<std::string>& labels) {
  std::optional<double> sum;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(name, 0) != 0 || (line[name.size()] != ' ' && line[name.size()] != '{')) continue;
    const auto contains = [&line](const std::string& label) { return line.find(label) != std::string::npos; };
    if (!std::all_of(labels.begin(), labels.end(), contains)) continue;
    sum = sum.value_or(0) + std::strtod(line.c_str() + line.rfind(' '), nullptr);
  }
  return sum;
}

PlainListener::PlainListener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = SocketAddress("127.0.0.1:0");
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  Require(::bind(fd_, generic, size) == 0 && ::listen(fd_, 8) == 0, "a listening socket");
  ::getsockname(fd_, generic, &size);
  address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

PlainListener::~PlainListener() { ::close(fd_); }

}  // namespace widelane::test
