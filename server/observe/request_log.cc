#include "server/observe/request_log.h"

#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "server/observe/log_fields.h"

namespace widelane {

namespace {

double InMilliseconds(uint64_t ns) { return static_cast<double>(ns) / 1e6; }

}  // namespace

RequestLog::~RequestLog() {
  slow_limit_.TellRepeats();
  refused_limit_.TellRepeats();
}

bool RequestLog::PassSlow() {
  metrics_.OnSlowRequest();
  return slow_limit_.Pass();
}

void RequestLog::TellSlow(const SlowRequest& request) {
  const v1::StageTimes& times = request.times;
  nlohmann::ordered_json fields;
  fields["total_ms"] = InMilliseconds(times.total_ns());
  fields["method"] = kMethodNames[static_cast<size_t>(request.method)];
  fields["model"] = std::string(request.model);
  fields["version"] = std::string(request.version);
  fields["code"] = std::string(request.code);
  fields["rows"] = request.rows;
  fields["entries"] = request.entries;
  fields["priority"] = std::string(request.priority);
  fields["queue_ms"] = InMilliseconds(times.queue_ns());
  fields["pack_ms"] = InMilliseconds(times.pack_ns());
  fields["launch_ms"] = InMilliseconds(times.launch_ns());
  fields["transfer_in_ms"] = InMilliseconds(times.transfer_in_ns());
  fields["compute_ms"] = InMilliseconds(times.compute_ns());
  fields["transfer_out_ms"] = InMilliseconds(times.transfer_out_ns());
  fields["reply_ms"] = InMilliseconds(times.reply_ns());
  fields["batches"] = times.batches();
  fields["batch_rows"] = times.batch_rows();
  if (!times.device().empty()) fields["device"] = times.device();
  if (!request.trace_id.empty()) fields["trace_id"] = std::string(request.trace_id);
  LogWithFields(spdlog::level::warn, "slow request", fields);
}

void RequestLog::OnRefused(const absl::Status& status) {
  if (!spdlog::should_log(spdlog::level::debug) || !refused_limit_.Pass()) return;
  spdlog::debug("refused: {}: {}", absl::StatusCodeToString(status.code()), std::string(status.message()));
}

}  // namespace widelane
