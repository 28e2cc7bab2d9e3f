#include "server/observe/http_answer.h"

#include <civetweb.h>

#include <string_view>

#include "absl/strings/str_cat.h"

namespace widelane {

int AnswerHttp(mg_connection* connection, int code, const char* type, const std::string& body) {
  const std::string head =
      absl::StrCat("HTTP/1.1 ", code, " ", mg_get_response_code_text(connection, code), "\r\nContent-Type: ", type,
                   "\r\nContent-Length: ", body.size(), "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n");
  mg_write(connection, head.data(), head.size());
  const char* method = mg_get_request_info(connection)->request_method;
  if (std::string_view(method) != "HEAD") mg_write(connection, body.data(), body.size());
  return code;
}

}  // namespace widelane
