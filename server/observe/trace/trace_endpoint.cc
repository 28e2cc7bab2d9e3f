#include "server/observe/trace/trace_endpoint.h"

#include <civetweb.h>
#include <spdlog/spdlog.h>

#include <array>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/observe/http_answer.h"
#include "server/observe/trace/timeline.h"
#include "server/observe/trace/tracer.h"

namespace widelane {

namespace {

constexpr int kSent = 200;
constexpr int kWrongMethod = 405;

int HttpCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return 400;
    case absl::StatusCode::kFailedPrecondition:
      return 409;
    default:
      return 503;
  }
}

int Refuse(mg_connection* connection, int code, absl::string_view why) {
  return AnswerHttp(connection, code, kPlainText, absl::StrCat(why, "\n"));
}

bool WriteAll(mg_connection* connection, absl::string_view text) {
  return mg_write(connection, text.data(), text.size()) == static_cast<int>(text.size());
}

// How long the file is shows when it has been written, so it goes in chunks, which HTTP 1.0 does not have.
void Send(mg_connection* connection, const Recording& recording, const std::vector<DeviceInfo>& devices) {
  const bool chunked = std::string_view(mg_get_request_info(connection)->http_version) != "1.0";
  WriteAll(connection, absl::StrCat("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                    "Content-Disposition: attachment; filename=\"widelane-trace.json\"\r\n",
                                    chunked ? "Transfer-Encoding: chunked\r\n" : "",
                                    "Cache-Control: no-store\r\nConnection: close\r\n\r\n"));
  uint64_t bytes = 0;
  const bool sent = WriteTimeline(recording, devices, [&](absl::string_view piece) {
    bytes += piece.size();
    if (!chunked) return WriteAll(connection, piece);
    return mg_send_chunk(connection, piece.data(), static_cast<unsigned int>(piece.size())) > 0;
  });
  if (sent && chunked) mg_send_chunk(connection, "", 0);
  if (recording.dropped() > 0) spdlog::warn("timeline: no room for {} records", recording.dropped());
  spdlog::info("timeline: {} {} bytes", sent ? "sent" : "not taken after", bytes);
}

}  // namespace

absl::StatusOr<std::chrono::nanoseconds> TraceTime(const std::string& query) {
  std::array<char, 32> text{};
  double seconds = 0;
  if (mg_get_var(query.data(), query.size(), "seconds", text.data(), text.size()) <= 0 ||
      !absl::SimpleAtod(text.data(), &seconds) || !(seconds > 0) || seconds > kMostTraceTime.count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("seconds: a number above 0 and up to ", kMostTraceTime.count(), " is wanted"));
  }
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

int HandleTrace(mg_connection* connection, void* tracer_pointer) {
  Tracer& tracer = *static_cast<Tracer*>(tracer_pointer);
  const mg_request_info& request = *mg_get_request_info(connection);
  if (std::string_view(request.request_method) != "GET") return Refuse(connection, kWrongMethod, "GET is wanted");
  const auto time = TraceTime(request.query_string == nullptr ? "" : request.query_string);
  if (!time.ok()) return Refuse(connection, HttpCode(time.status()), time.status().message());
  const auto recording = tracer.Record(*time);
  if (!recording.ok()) {
    return Refuse(connection, HttpCode(recording.status()), recording.status().message());
  }
  Send(connection, **recording, tracer.devices());
  return kSent;
}

}  // namespace widelane
