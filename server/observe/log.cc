#include "server/observe/log.h"

#include <grpc/support/log.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace widelane {

namespace {

// {"time":"...","level":"info","message":"..."}
class JsonFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    spdlog::memory_buf_t time;
    time_.format(message, time);
    nlohmann::ordered_json line;
    line["time"] = std::string(time.data(), time.size());
    const spdlog::string_view_t level = spdlog::level::to_string_view(message.level);
    line["level"] = std::string(level.data(), level.size());
    line["message"] = std::string(message.payload.data(), message.payload.size());
    const std::string text = line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonFormatter>(); }

 private:
  spdlog::pattern_formatter time_{"%Y-%m-%dT%H:%M:%S.%fZ", spdlog::pattern_time_type::utc, ""};
};

void OnGrpcMessage(gpr_log_func_args* args) {
  const auto level = args->severity == GPR_LOG_SEVERITY_ERROR ? spdlog::level::warn : spdlog::level::debug;
  spdlog::log(level, "gRPC: {}", args->message);
}

}  // namespace

void StartLogging(const LogConfig& config) {
  auto logger = std::make_shared<spdlog::logger>("widelane", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (config.format == "json") {
    logger->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    logger->set_formatter(
        std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc));
  }
  logger->set_level(spdlog::level::from_str(config.level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  gpr_set_log_function(OnGrpcMessage);
}

}  // namespace widelane
