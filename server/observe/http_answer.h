// How the HTTP port answers.

#ifndef WIDELANE_SERVER_OBSERVE_HTTP_ANSWER_H_
#define WIDELANE_SERVER_OBSERVE_HTTP_ANSWER_H_

#include <string>

struct mg_connection;

namespace widelane {

inline constexpr char kPlainText[] = "text/plain; charset=utf-8";

// Sends all of an answer, without its body to who asked for the head, and returns `code`.
int AnswerHttp(mg_connection* connection, int code, const char* type, const std::string& body);

}  // namespace widelane

#endif  // WIDELANE_SERVER_OBSERVE_HTTP_ANSWER_H_
