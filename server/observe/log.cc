#include "server/observe/log.h"

#include <grpc/support/log.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "server/observe/log_fields.h"
#include "server/observe/log_limit.h"
#include "server/observe/log_metrics.h"

namespace widelane {

namespace {

using Json = nlohmann::ordered_json;

// Of the line that this thread is writing: spdlog knows of no fields, and formats on the thread that logs.
thread_local const Json* current_fields = nullptr;

std::string ToText(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// {"time":"...","level":"info","message":"..."}
class JsonFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    spdlog::memory_buf_t time;
    time_.format(message, time);
    Json line;
    line["time"] = std::string(time.data(), time.size());
    const spdlog::string_view_t level = spdlog::level::to_string_view(message.level);
    line["level"] = std::string(level.data(), level.size());
    line["message"] = std::string(message.payload.data(), message.payload.size());
    if (current_fields != nullptr) line.update(*current_fields);
    const std::string text = ToText(line) + "\n";
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonFormatter>(); }

 private:
  spdlog::pattern_formatter time_{"%Y-%m-%dT%H:%M:%S.%fZ", spdlog::pattern_time_type::utc, ""};
};

// " key=value" for each field.
class FieldsFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& /*message*/, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    if (current_fields == nullptr) return;
    for (const auto& [key, value] : current_fields->items()) {
      const std::string text = " " + key + "=" + ToText(value);
      out.append(text.data(), text.data() + text.size());
    }
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<FieldsFlag>(); }
};

// Writes nothing.
class CountingSink : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& message) override { CountLine(message.level); }
  void flush() override {}
  void set_pattern(const std::string& /*pattern*/) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter> /*formatter*/) override {}
};

// One for each place in gRPC that logs; never destroyed, since gRPC's threads may log to the last.
LogLimit& GrpcLimit(const char* file, int line, spdlog::level::level_enum level) {
  static auto& mutex = *new std::mutex;
  static auto& limits = *new std::map<std::pair<std::string_view, int>, LogLimit>;
  const std::lock_guard lock(mutex);
  return limits.try_emplace({file, line}, "gRPC " + std::string(file) + ":" + std::to_string(line), level)
      .first->second;
}

void OnGrpcMessage(gpr_log_func_args* args) {
  const auto level = args->severity == GPR_LOG_SEVERITY_ERROR ? spdlog::level::warn : spdlog::level::debug;
  if (!spdlog::should_log(level) || !GrpcLimit(args->file, args->line, level).Pass()) return;
  spdlog::log(level, "gRPC: {}", args->message);
}

}  // namespace

std::unique_ptr<spdlog::formatter> MakeLogFormatter(const std::string& format) {
  if (format == "json") return std::make_unique<JsonFormatter>();
  auto text = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  text->add_flag<FieldsFlag>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v%*");
  return text;
}

void StartLogging(const LogConfig& config) {
  auto output = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  output->set_formatter(MakeLogFormatter(config.format));
  const spdlog::sinks_init_list sinks = {std::move(output), std::make_shared<CountingSink>()};
  auto logger = std::make_shared<spdlog::logger>("widelane", sinks);
  logger->set_level(spdlog::level::from_str(config.level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  gpr_set_log_function(OnGrpcMessage);
}

void LogWithFields(spdlog::level::level_enum level, const std::string& message, const Json& fields) {
  current_fields = &fields;
  spdlog::log(level, "{}", message);
  current_fields = nullptr;
}

std::string LogLevel() {
  const spdlog::string_view_t level = spdlog::level::to_string_view(spdlog::get_level());
  return {level.data(), level.size()};
}

bool SetLogLevel(const std::string& level) {
  const spdlog::level::level_enum wanted = spdlog::level::from_str(level);
  const spdlog::string_view_t name = spdlog::level::to_string_view(wanted);
  if (wanted > spdlog::level::err || level != std::string_view(name.data(), name.size())) return false;
  spdlog::default_logger_raw()->set_level(wanted);
  return true;
}

}  // namespace widelane
