// The HTTP port as a scraper sees it, and loopback sockets.

#ifndef WIDELANE_TESTS_SUPPORT_HTTP_H_
#define WIDELANE_TESTS_SUPPORT_HTTP_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace widelane::test {

struct HttpReply {
  int status = 0;  // 0: no connection, or no answer
  std::string head;
  std::string body;
};
// `method` on `path` at "host:port", host an IPv4 address.
HttpReply HttpCall(const std::string& method, const std::string& address, const std::string& path,
                   std::chrono::seconds limit = std::chrono::seconds(30));
// GET of `path` from "host:port", host an IPv4 address.
HttpReply HttpGet(const std::string& address, const std::string& path,
                  std::chrono::seconds limit = std::chrono::seconds(30));

// Sum of the samples called `name` whose labels contain each of `labels` ("code=\"OK\""). Absent when there is none.
std::optional<double> MetricValue(const std::string& page, const std::string& name,
                                  const std::vector<std::string>& labels = {});

// A plain TCP socket that listens on a free loopback port and never answers.
class PlainListener {
 public:
  PlainListener();
  ~PlainListener();
  PlainListener(const PlainListener&) = delete;
  PlainListener& operator=(const PlainListener&) = delete;
  const std::string& address() const { return address_; }

 private:
  int fd_;
  std::string address_;
};

}  // namespace widelane::test

#endif  // WIDELANE_TESTS_SUPPORT_HTTP_H_
